// SPDX-License-Identifier: Apache-2.0
#include "search/dp.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <utility>

#include "search/dispatch.h"
#include "search/merges.h"
#include "support/bitset.h"
#include "support/error.h"
#include "support/intern_table.h"

namespace tvm_ios {
namespace {

/*! \brief The schedule space, in sets of operators of one width. */
template <typename Bits>
class Space final : public ScheduleSpace {
 public:
  Space(const Dag& dag, const SearchOptions& options, const Interrupt& interrupt)
      : dag_(dag), interrupt_(interrupt) {
    Expand(options);
    SortStates();
  }

  CandidateBatch Candidates() const override {
    InterruptPoller poller(interrupt_);
    CandidateBatch batch{NumWords(dag_.num_ops()), {}, {}};
    batch.ops.reserve(batch.words * candidates_.size());
    batch.strategies.reserve(candidates_.size());
    for (size_t i = 0; i < candidates_.size(); ++i) {
      poller.Tick();
      Append(candidates_[i], &batch);
    }
    return batch;
  }

  SearchResult Solve(const std::vector<double>& latency) const override {
    const std::vector<Best> best = CheapestRests(latency);
    SearchResult result{Trace(best), best[kStart].latency, 0, 0, 0};
    result.states = static_cast<int64_t>(states_.size());
    result.transitions = static_cast<int64_t>(transitions_.size());
    result.evaluations = static_cast<int64_t>(candidates_.size());
    return result;
  }

  /*!
   * \brief Return the cheapest latency through each candidate: to its state, through it, and on to
   * the end.
   */
  std::vector<double> Through(const std::vector<double>& latency) const override {
    const std::vector<Best> best = CheapestRests(latency);
    InterruptPoller poller(interrupt_);
    std::vector<double> reach(states_.size(), kInfinity);
    std::vector<double> through(candidates_.size(), kInfinity);
    reach[kStart] = 0.0;
    for (auto state = by_size_.rbegin(); state != by_size_.rend(); ++state) {
      for (size_t i = first_transition_[*state]; i < first_transition_[*state + 1]; ++i) {
        poller.Tick();
        const auto [candidate, rest] = transitions_[i];
        const double so_far = reach[*state] + latency[candidate];
        const double onwards = rest == kDone ? 0.0 : best[rest].latency;
        through[candidate] = std::min(through[candidate], so_far + onwards);
        if (rest != kDone) reach[rest] = std::min(reach[rest], so_far);
      }
    }
    return through;
  }

 private:
  static constexpr uint32_t kStart = 0;          // the state in which all operators remain
  static constexpr uint32_t kDone = UINT32_MAX;  // the state in which no operator remains
  static constexpr uint32_t kNone = UINT32_MAX;  // no candidate
  static constexpr double kInfinity = std::numeric_limits<double>::infinity();

  /*! \brief A transition, in eight bytes because there are millions. */
  struct Transition {
    uint32_t candidate;
    uint32_t rest;
  };
  /*! \brief The cheapest schedule of a state's operators. */
  struct Best {
    double latency{kInfinity};
    uint32_t num_stages{0};
    uint32_t candidate{kNone};
    uint32_t rest{kDone};
  };

  /*!
   * \brief A limit for the memory of a candidate in Python: its operators and its latency bounds.
   */
  static constexpr int64_t kBytesOfReader = 1024;

  void Expand(const SearchOptions& options) {
    const MemoryBudget budget;
    InterruptPoller poller([&] {
      if (interrupt_) interrupt_();
      const auto candidates = static_cast<int64_t>(candidates_.size());
      if (budget.IsSpent() || candidates > budget.bytes() / kBytesOfReader) {
        throw TooMuchMemory(dag_.num_ops(), budget);
      }
    });
    const DagBits<Bits> graph(dag_);
    EndingEnumerator<Bits> endings(graph, options.pruning, &poller);
    const MergeEnumerator<Bits> merges(graph, options);
    states_.Intern(Bits::Full(graph.num_ops));
    for (size_t state = 0; state < states_.size(); ++state) {
      first_transition_.push_back(transitions_.size());
      const Bits remaining = states_[state];  // a copy: the table reallocates as it grows
      const auto add = [&](const Bits& ops, Strategy strategy) {
        poller.Tick();
        if (transitions_.size() == options.max_transitions) {
          throw OptionError("there are more than " + std::to_string(options.max_transitions) +
                            " transitions; cut the graph into smaller blocks");
        }
        AddTransition(remaining, ops, strategy);
      };
      endings.ForEach(remaining, [&](const Bits& ops) { add(ops, Strategy::kConcurrent); });
      merges.ForEach(remaining, [&](const Bits& ops) { add(ops, Strategy::kMerge); });
    }
    first_transition_.push_back(transitions_.size());
  }

  void AddTransition(const Bits& remaining, const Bits& ops, Strategy strategy) {
    const Bits rest = remaining - ops;
    const uint32_t candidate = candidates_.Intern({ops, strategy}).first;
    transitions_.push_back({candidate, rest.Empty() ? kDone : states_.Intern(rest).first});
  }

  /*!
   * \brief Sort states by size: a transition leads to a smaller state, so small states are solved
   * first.
   */
  void SortStates() {
    std::vector<uint32_t> begin(dag_.num_ops() + 2, 0);
    InterruptPoller poller(interrupt_);
    for (size_t state = 0; state < states_.size(); ++state) {
      poller.Tick();
      ++begin[states_[state].Count() + 1];
    }
    for (size_t size = 1; size < begin.size(); ++size) begin[size] += begin[size - 1];
    by_size_.resize(states_.size());
    for (size_t state = 0; state < states_.size(); ++state) {
      poller.Tick();
      by_size_[begin[states_[state].Count()]++] = static_cast<uint32_t>(state);
    }
  }

  void CheckLatencies(const std::vector<double>& latency) const {
    CheckNumLatencies(latency.size(), candidates_.size());
    for (size_t i = 0; i < latency.size(); ++i) CheckLatency(candidates_[i], latency[i]);
  }

  std::vector<Best> CheapestRests(const std::vector<double>& latency) const {
    CheckLatencies(latency);
    InterruptPoller poller(interrupt_);
    std::vector<Best> best(states_.size());
    for (uint32_t state : by_size_) {
      for (size_t i = first_transition_[state]; i < first_transition_[state + 1]; ++i) {
        poller.Tick();
        const auto [candidate, rest] = transitions_[i];
        const Best onwards = rest == kDone ? Best{0.0} : best[rest];
        const Best through{latency[candidate] + onwards.latency, 1 + onwards.num_stages, candidate,
                           rest};
        if (IsBetter(through, best[state])) best[state] = through;
      }
    }
    return best;
  }

  static bool IsBetter(const Best& a, const Best& b) {
    return a.latency < b.latency || (a.latency == b.latency && a.num_stages < b.num_stages);
  }

  Schedule Trace(const std::vector<Best>& best) const {
    Schedule stages;
    for (uint32_t state = kStart; state != kDone; state = best[state].rest) {
      const uint32_t id = best[state].candidate;
      if (id == kNone) {
        throw ScheduleError(
            "every schedule has a stage of infinite latency; "
            "give each operator on its own a finite one");
      }
      const auto& [ops, strategy] = candidates_[id];
      stages.push_back({{ops.begin(), ops.end()}, strategy});
    }
    std::reverse(stages.begin(), stages.end());
    return stages;
  }

  const Dag dag_;
  const Interrupt interrupt_;

  InternTable<Bits> states_;
  InternTable<SetCandidate<Bits>> candidates_;
  std::vector<Transition> transitions_;
  std::vector<size_t> first_transition_;  // by state, with the end
  std::vector<uint32_t> by_size_;         // states, the smallest first
};

template <typename Bits>
void CheckRemaining(const DagBits<Bits>& graph, const Bits& remaining) {
  for (int op : remaining) {
    if (graph.predecessors[op].IsSubsetOf(remaining)) continue;
    throw GraphError("the remaining operators have operator " + std::to_string(op) +
                     " but not all of its predecessors; add them");
  }
}

}  // namespace

std::unique_ptr<const ScheduleSpace> Explore(const Dag& dag, const SearchOptions& options,
                                             const Interrupt& interrupt) {
  CheckOptions(dag, options);
  return DispatchWidth(dag.num_ops(), [&](auto empty) -> std::unique_ptr<const ScheduleSpace> {
    return std::make_unique<Space<decltype(empty)>>(dag, options, interrupt);
  });
}

CandidateBatch Endings(const Dag& dag, const std::vector<int>& remaining, const Pruning& pruning,
                       const Interrupt& interrupt) {
  CheckPruning(pruning);
  return DispatchWidth(dag.num_ops(), [&](auto ops) {
    using Bits = decltype(ops);
    for (int op : remaining) {
      if (op < 0 || op >= dag.num_ops()) {
        throw GraphError("operator " + std::to_string(op) + " is not in the graph");
      }
      ops.Set(op);
    }
    const DagBits<Bits> graph(dag);
    CheckRemaining(graph, ops);
    const MemoryBudget budget;
    InterruptPoller poller([&] {
      if (interrupt) interrupt();
      if (budget.IsSpent()) throw TooMuchMemory(dag.num_ops(), budget);
    });
    CandidateBatch batch{NumWords(dag.num_ops()), {}, {}};
    EndingEnumerator<Bits>(graph, pruning, &poller).ForEach(ops, [&](const Bits& ending) {
      Append(SetCandidate<Bits>{ending, Strategy::kConcurrent}, &batch);
    });
    return batch;
  });
}

}  // namespace tvm_ios
