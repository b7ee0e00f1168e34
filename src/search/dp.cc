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

/*! \brief A stage that may be chosen. */
template <typename Bits>
struct Candidate {
  Bits ops;
  Strategy strategy;

  uint64_t Hash() const { return ops.Hash() ^ static_cast<uint64_t>(strategy); }
  friend bool operator==(const Candidate& a, const Candidate& b) {
    return a.strategy == b.strategy && a.ops == b.ops;
  }
};

template <typename Bits>
void Append(const Bits& ops, Strategy strategy, CandidateBatch* batch) {
  batch->ops.insert(batch->ops.end(), ops.words().begin(),
                    ops.words().begin() + static_cast<std::ptrdiff_t>(batch->words));
  batch->strategies.push_back(static_cast<int32_t>(strategy));
}

template <typename Bits>
std::string Describe(const Candidate<Bits>& candidate) {
  std::string text = candidate.strategy == Strategy::kMerge ? "merge {" : "concurrent {";
  for (int op : candidate.ops) text += std::to_string(op) + ", ";
  return text.substr(0, text.size() - 2) + "}";
}

/*! \brief One run of the dynamic programme: Explore, Evaluate, Solve, Trace, in this order. */
template <typename Bits>
class Search {
 public:
  Search(const Dag& dag, const SearchOptions& options, const Interrupt& interrupt)
      : dag_(dag),
        graph_(dag),
        poller_(interrupt),
        endings_(graph_, options.pruning, &poller_),
        merges_(graph_, options) {}

  SearchResult Run(const CostFunction& cost) {
    Explore();
    Evaluate(cost);
    Solve();
    SearchResult result{Trace(), best_[kStart].latency, 0, 0, 0};
    result.states = static_cast<int64_t>(states_.size());
    result.transitions = static_cast<int64_t>(transitions_.size());
    result.evaluations = static_cast<int64_t>(candidates_.size());
    return result;
  }

 private:
  static constexpr uint32_t kStart = 0;          // the state in which all operators remain
  static constexpr uint32_t kDone = UINT32_MAX;  // the state in which none does
  static constexpr uint32_t kNone = UINT32_MAX;  // no candidate
  static constexpr double kInfinity = std::numeric_limits<double>::infinity();

  /*! \brief Eight bytes, because there are millions. */
  struct Transition {
    uint32_t candidate;
    uint32_t rest;
  };
  /*! \brief The cheapest way to run a state's operators. */
  struct Best {
    double latency{kInfinity};
    uint32_t num_stages{0};
    uint32_t candidate{kNone};
    uint32_t rest{kDone};
  };

  void Explore() {
    states_.Intern(Bits::Full(graph_.num_ops));
    for (size_t state = 0; state < states_.size(); ++state) {
      first_transition_.push_back(transitions_.size());
      const Bits remaining = states_[state];  // a copy: the table moves as it grows
      endings_.ForEach(remaining, [&](const Bits& ops) {
        AddTransition(remaining, ops, Strategy::kConcurrent);
      });
      merges_.ForEach(remaining,
                      [&](const Bits& ops) { AddTransition(remaining, ops, Strategy::kMerge); });
    }
    first_transition_.push_back(transitions_.size());
  }

  void AddTransition(const Bits& remaining, const Bits& ops, Strategy strategy) {
    poller_.Tick();
    const Bits rest = remaining - ops;
    const uint32_t candidate = candidates_.Intern({ops, strategy}).first;
    transitions_.push_back({candidate, rest.Empty() ? kDone : states_.Intern(rest).first});
  }

  void Evaluate(const CostFunction& cost) {
    CandidateBatch batch{NumWords(graph_.num_ops), {}, {}};
    batch.ops.reserve(batch.words * candidates_.size());
    batch.strategies.reserve(candidates_.size());
    for (size_t i = 0; i < candidates_.size(); ++i) {
      poller_.Tick();
      Append(candidates_[i].ops, candidates_[i].strategy, &batch);
    }
    latency_ = cost(batch);
    if (latency_.size() != candidates_.size()) {
      throw CostError("the cost function returned " + std::to_string(latency_.size()) +
                      " latencies for " + std::to_string(candidates_.size()) + " stages");
    }
    for (size_t i = 0; i < latency_.size(); ++i) {
      if (latency_[i] >= 0) continue;  // false for what is not a number
      throw CostError("the latency of the stage " + Describe(candidates_[i]) + " is " +
                      std::to_string(latency_[i]) +
                      "; return seconds, or infinity if it cannot run");
    }
  }

  /*! \brief A state's rest has fewer operators than the state, so small states come first. */
  void Solve() {
    best_.resize(states_.size());
    for (uint32_t state : StatesBySize()) {
      for (size_t i = first_transition_[state]; i < first_transition_[state + 1]; ++i) {
        poller_.Tick();
        Relax(transitions_[i], &best_[state]);
      }
    }
  }

  void Relax(const Transition& transition, Best* best) const {
    const bool done = transition.rest == kDone;
    const double latency =
        latency_[transition.candidate] + (done ? 0.0 : best_[transition.rest].latency);
    const uint32_t num_stages = 1 + (done ? 0 : best_[transition.rest].num_stages);
    if (latency < best->latency || (latency == best->latency && num_stages < best->num_stages)) {
      *best = {latency, num_stages, transition.candidate, transition.rest};
    }
  }

  std::vector<uint32_t> StatesBySize() const {
    std::vector<uint32_t> begin(graph_.num_ops + 2, 0);
    for (size_t state = 0; state < states_.size(); ++state) ++begin[states_[state].Count() + 1];
    for (size_t size = 1; size < begin.size(); ++size) begin[size] += begin[size - 1];
    std::vector<uint32_t> order(states_.size());
    for (size_t state = 0; state < states_.size(); ++state) {
      order[begin[states_[state].Count()]++] = static_cast<uint32_t>(state);
    }
    return order;
  }

  Schedule Trace() const {
    Schedule stages;
    for (uint32_t state = kStart; state != kDone; state = best_[state].rest) {
      const uint32_t candidate = best_[state].candidate;
      if (candidate == kNone) {
        throw ScheduleError(
            "every schedule has a stage of infinite latency; "
            "give each operator on its own a finite one");
      }
      stages.push_back(MakeStage(candidate));
    }
    std::reverse(stages.begin(), stages.end());
    return stages;
  }

  Stage MakeStage(uint32_t id) const {
    const Candidate<Bits>& candidate = candidates_[id];
    const std::vector<int> ops(candidate.ops.begin(), candidate.ops.end());
    return tvm_ios::MakeStage(dag_, ops, candidate.strategy, latency_[id]);
  }

  const Dag& dag_;
  const DagBits<Bits> graph_;
  InterruptPoller poller_;
  EndingEnumerator<Bits> endings_;
  const MergeEnumerator<Bits> merges_;

  InternTable<Bits> states_;
  InternTable<Candidate<Bits>> candidates_;
  std::vector<Transition> transitions_;
  std::vector<size_t> first_transition_;  // of each state, and the end
  std::vector<double> latency_;           // of each candidate
  std::vector<Best> best_;                // of each state
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

SearchResult FindSchedule(const Dag& dag, const SearchOptions& options, const CostFunction& cost,
                          const Interrupt& interrupt) {
  CheckOptions(dag, options);
  return DispatchWidth(dag.num_ops(), [&](auto empty) {
    return Search<decltype(empty)>(dag, options, interrupt).Run(cost);
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
    InterruptPoller poller(interrupt);
    CandidateBatch batch{NumWords(dag.num_ops()), {}, {}};
    EndingEnumerator<Bits>(graph, pruning, &poller).ForEach(ops, [&](const Bits& ending) {
      Append(ending, Strategy::kConcurrent, &batch);
    });
    return batch;
  });
}

}  // namespace tvm_ios
