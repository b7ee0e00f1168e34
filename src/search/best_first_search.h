// SPDX-License-Identifier: Apache-2.0
/*!
 * \file best_first_search.h
 * \brief The best-first search, in sets of operators of one width.
 */
#ifndef TVM_IOS_SEARCH_BEST_FIRST_SEARCH_H_
#define TVM_IOS_SEARCH_BEST_FIRST_SEARCH_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <queue>
#include <utility>
#include <vector>

#include "search/allowed_stages.h"
#include "search/baselines.h"
#include "search/best_first.h"
#include "search/dispatch.h"
#include "search/merges.h"
#include "search/price_table.h"
#include "support/deadline.h"
#include "support/error.h"
#include "support/intern_table.h"
#include "support/memory.h"

namespace tvm_ios {

/*! \brief States of one size that are expanded together, so that prices are asked in batches. */
constexpr size_t kWidth = 4;

/*! \brief A state is first expanded by stages within narrow limits, and last by all stages. */
constexpr std::array<Pruning, 2> kNarrow = {Pruning{4, 2}, Pruning{8, 4}};

/*! \brief A state loses this share of the known improvement over the bound with each level. */
constexpr double kPenalty = 0.25;

/*! \brief How often the search begins anew because prices refuted the floors that it pruned by. */
constexpr int kPasses = 3;

/*! \brief The largest merge class whose subsets are all priced. */
constexpr size_t kMaxMerged = 8;

template <typename Bits>
class BestFirstOfWidth final : public BestFirst {
 public:
  BestFirstOfWidth(const Dag& dag, const SearchOptions& options, const std::vector<double>& floors,
                   const SearchBudget& budget)
      : dag_(dag),
        graph_(dag_),
        options_(options),
        budget_(budget),
        poller_([this] {
          if (interrupt_) interrupt_();
          if (memory_->IsSpent()) throw OutOfBudget{};
        }),
        merges_(graph_, options),
        prices_(floors) {
    const Pruning& own = options.pruning;
    for (const auto& [group_size, num_groups] : kNarrow) {
      if (group_size >= own.max_group_size && num_groups >= own.max_num_groups) break;
      AddLevel(
          {std::min(group_size, own.max_group_size), std::min(num_groups, own.max_num_groups)});
    }
    AddLevel(own);
    // Merged stages have no floors of their own, so all need prices, or their operators no floors.
    std::vector<int> left_out;
    merged_ = AllMerges(graph_, options, kMaxMerged, &left_out);
    for (int op : left_out) prices_.RemoveFloor(op);
  }

  CandidateBatch Candidates(size_t begin) const override { return prices_.Batch(begin); }
  size_t num_priced() const override { return prices_.num_priced(); }

  void Begin(const std::vector<double>& seconds, const Schedule& known, bool priced_only) override {
    CheckKnown(dag_, known);
    first_.clear();
    prices_.Begin(seconds);
    deadline_.emplace(budget_.seconds);
    memory_.emplace();
    upper_ = kInfinity;
    incumbent_.clear();
    pass_ = 0;
    stopped_ = false;
    for (const Bits& ops : merged_) prices_.Intern(ops, Strategy::kMerge);
    const size_t groups = std::min<size_t>(options_.pruning.max_num_groups, dag_.num_ops());
    first_ = {InternStages(SequentialSchedule(dag_)),
              InternStages(GreedySchedule(dag_, static_cast<int64_t>(groups)))};
    if (!known.empty()) first_.push_back(InternStages(known));
    FindAllowed(priced_only);
  }

  void Price(const std::vector<double>& seconds) override {
    CheckNumLatencies(seconds.size(), prices_.size() - prices_.num_priced());
    prices_.Price(seconds);
  }

  bool Advance(const Interrupt& interrupt) override {
    if (first_.empty()) throw OptionError("the search has not begun");
    if (NeedsPrices()) return false;
    interrupt_ = interrupt;
    if (pass_ == 0) {
      for (std::vector<uint32_t>& stages : first_) UpdateIncumbent(std::move(stages));
      BeginPass();
    }
    do {
      FollowAll();
      if (!ExpandNext()) return true;
    } while (!NeedsPrices());
    return false;
  }

  BoundedResult Result() const override {
    if (upper_ == kInfinity) {
      throw ScheduleError(
          "every schedule has a stage of infinite latency; "
          "give each operator on its own a finite one");
    }
    const double bound = LowerBound();
    SearchResult result{Output(), upper_, static_cast<int64_t>(states_.size()),
                        static_cast<int64_t>(num_transitions_),
                        static_cast<int64_t>(prices_.num_interned())};
    return {std::move(result), std::min(bound, upper_), bound >= upper_};
  }

 private:
  static constexpr double kInfinity = std::numeric_limits<double>::infinity();

  /*! \brief An exception that ends the search. */
  struct OutOfBudget {};
  struct State {
    double cost;         // of the stages decided so far
    uint32_t before;     // the predecessor state
    uint32_t candidate;  // the stage that leads here from there
    uint32_t level;      // how far it was expanded
    bool is_open;        // whether it may have schedules that were not considered
  };
  struct Entry {
    double priority;
    uint32_t state;
    double cost;
    friend bool operator<(const Entry& a, const Entry& b) {  // the greatest comes first
      return std::make_pair(a.priority, a.state) > std::make_pair(b.priority, b.state);
    }
  };
  struct Transition {
    uint32_t from;
    uint32_t candidate;
  };
  static constexpr uint32_t kNone = UINT32_MAX;

  void AddLevel(const Pruning& limits) { endings_.emplace_back(graph_, limits, &poller_); }

  bool NeedsPrices() const { return prices_.num_priced() < prices_.size(); }

  /*! \brief Intern the stages of a schedule and return their numbers. */
  std::vector<uint32_t> InternStages(const Schedule& schedule) {
    std::vector<uint32_t> stages;
    for (const Candidate& stage : schedule) {
      stages.push_back(prices_.Intern(Bits::Of(graph_.num_ops, stage.ops), stage.strategy));
    }
    return stages;
  }

  /*! \brief Keep a complete schedule if it is the best so far. */
  void UpdateIncumbent(std::vector<uint32_t> stages) {
    double total = 0;
    for (uint32_t stage : stages) total += prices_[stage];
    if (total >= upper_) return;
    upper_ = total;
    incumbent_ = std::move(stages);
  }

  /*! \brief Find the stages that the search is restricted to; none if it is not. */
  void FindAllowed(bool priced_only) {
    priced_only_ = priced_only;
    allowed_.Clear();
    for (uint32_t id = 0; priced_only && id < prices_.num_priced(); ++id) {
      if (prices_[id] < kInfinity) allowed_.Add(graph_, id, prices_.candidate(id).ops);
    }
  }

  void BeginPass() {
    ++pass_;
    states_.Clear();
    info_.clear();
    transitions_.clear();
    num_transitions_ = 0;
    stopped_ = progress_ = false;
    queues_.assign(graph_.num_ops + 1, {});
    size_ = graph_.num_ops;
    const Bits all = Bits::Full(graph_.num_ops);
    root_floor_ = prices_.Floor(all);
    Reach(all, {0, kNone, kNone, 0, true});
  }

  /*! \brief Expand the most promising states of the next size that has any; return if it has. */
  bool ExpandNext() {
    while (true) {
      for (; size_ > 0 && !stopped_; --size_) {
        if (ExpandBest(&queues_[size_])) {
          progress_ = true;
          --size_;
          return true;
        }
      }
      if (progress_ && !stopped_) {
        progress_ = false;
        size_ = graph_.num_ops;
      } else if (pass_ < kPasses && FloorReduction() > 0) {
        BeginPass();
      } else {
        return false;
      }
    }
  }

  /*! \brief Return by how much prices have reduced the floors since this pass began. */
  double FloorReduction() const {
    return std::max(0.0, root_floor_ - prices_.Floor(Bits::Full(graph_.num_ops)));
  }

  double Total(uint32_t state) const { return info_[state].cost + prices_.Floor(states_[state]); }

  /*! \brief Expand the most promising states of a queue; return whether there were any. */
  bool ExpandBest(std::priority_queue<Entry>* queue) {
    size_t expanded = 0;
    while (expanded < kWidth && !queue->empty() && !stopped_) {
      const Entry entry = queue->top();
      queue->pop();
      const State& state = info_[entry.state];
      if (entry.cost != state.cost || Total(entry.state) >= upper_) continue;
      TryToExpand(entry.state);
      ++expanded;
    }
    return expanded > 0;
  }

  void TryToExpand(uint32_t state) {
    try {
      const bool complete = priced_only_ ? ExpandAllowed(state) : Expand(state);
      const size_t num_levels = priced_only_ ? 1 : endings_.size();
      State& info = info_[state];
      ++info.level;
      info.is_open = info.level < num_levels || !complete;
      if (info.level < num_levels) Enqueue(state);
    } catch (const OutOfBudget&) {
      stopped_ = true;
    }
  }

  /*! \brief Collect the transitions of a state; return whether there are no others at this level.
   */
  bool Expand(uint32_t state) {
    bool complete = true;
    const Bits& remaining = states_[state];
    const auto add = [&](const Bits& ops, Strategy strategy) {
      Count();
      const std::optional<uint32_t> candidate =
          prices_.Intern(ops, strategy, budget_.max_candidates);
      if (candidate) transitions_.push_back({state, *candidate});
      complete = complete && candidate.has_value();
    };
    merges_.ForEach(remaining, [&](const Bits& ops) { add(ops, Strategy::kMerge); });
    endings_[info_[state].level].ForEach(remaining,
                                         [&](const Bits& ops) { add(ops, Strategy::kConcurrent); });
    return complete;
  }

  /*! \brief Collect the transitions of a state by the stages that the search is restricted to. */
  bool ExpandAllowed(uint32_t state) {
    allowed_.ForEach(states_[state], [&](uint32_t candidate) {
      Count();
      transitions_.push_back({state, candidate});
    });
    return true;
  }

  /*! \brief Count a transition against the budget. */
  void Count() {
    poller_.Tick();
    if (num_transitions_ == budget_.max_transitions || deadline_->Over()) throw OutOfBudget{};
    ++num_transitions_;
  }

  /*! \brief Follow the transitions, of which those of one state come one after another. */
  void FollowAll() {
    uint32_t from = kNone;
    double floor = 0;
    for (const Transition& transition : transitions_) {
      if (transition.from != from) floor = prices_.Floor(states_[transition.from]);
      from = transition.from;
      Follow(transition, floor);
    }
    transitions_.clear();
  }

  /*! \param floor That of the operators that remain before the stage. */
  void Follow(const Transition& transition, double floor) {
    const double cost = info_[transition.from].cost + prices_[transition.candidate];
    if (cost >= upper_) return;
    const Bits& ops = prices_.candidate(transition.candidate).ops;
    const Bits rest = states_[transition.from] - ops;
    if (rest.Empty()) {
      UpdateIncumbent(Trace(transition));
    } else if (cost + (floor - prices_.Floor(ops)) < upper_) {  // quicker than that of the rest
      Reach(rest, {cost, transition.from, transition.candidate, 0, true});
    }
  }

  void Reach(const Bits& remaining, const State& state) {
    const auto [id, is_new] = states_.Intern(remaining);
    if (is_new) {
      info_.push_back(state);
    } else if (state.cost < info_[id].cost) {
      // Its stages are considered again, with this cost.
      const uint32_t level = info_[id].level;
      info_[id] = state;
      info_[id].level = level == 0 ? 0 : level - 1;
    } else {
      return;
    }
    Enqueue(id);
  }

  void Enqueue(uint32_t state) {
    const double slack = std::max(0.0, upper_ - root_floor_);
    const double penalty = kPenalty * static_cast<double>(info_[state].level);
    const double expected = info_[state].cost + prices_.Expected(states_[state]);
    const double priority = expected + (slack < kInfinity ? penalty * slack : 0.0);
    queues_[states_[state].Count()].push({priority, state, info_[state].cost});
  }

  /*! \brief Return the stages of the schedule that begins with a stage that leaves nothing. */
  std::vector<uint32_t> Trace(const Transition& first) const {
    std::vector<uint32_t> stages{first.candidate};
    for (uint32_t state = first.from; info_[state].before != kNone; state = info_[state].before) {
      stages.push_back(info_[state].candidate);
    }
    return stages;
  }

  /*! \brief Return a lower bound for all schedules, from the states that may have others. */
  double LowerBound() const {
    // What was not followed cost as much as the incumbent by the floors of that time.
    double bound = upper_ - FloorReduction();
    for (uint32_t state = 0; state < states_.size(); ++state) {
      if (info_[state].is_open) bound = std::min(bound, Total(state));
    }
    return bound;
  }

  Schedule Output() const {
    Schedule schedule;
    for (uint32_t id : incumbent_) {
      const auto& [ops, strategy] = prices_.candidate(id);
      schedule.push_back({{ops.begin(), ops.end()}, strategy});
    }
    return schedule;
  }

  const Dag dag_;
  const DagBits<Bits> graph_;
  const SearchOptions options_;
  const SearchBudget budget_;
  Interrupt interrupt_;
  std::optional<Deadline> deadline_;
  std::optional<MemoryBudget> memory_;
  InterruptPoller poller_;
  const MergeEnumerator<Bits> merges_;
  std::vector<EndingEnumerator<Bits>> endings_;  // by level
  PriceTable<Bits> prices_;
  std::vector<Bits> merged_;  // the operators of all merged stages that need prices

  bool priced_only_{false};
  AllowedStages<Bits> allowed_;
  std::vector<std::vector<uint32_t>> first_;  // the schedules that the search begins from
  InternTable<Bits> states_;
  std::vector<State> info_;                         // by state
  std::vector<std::priority_queue<Entry>> queues_;  // by number of operators
  std::vector<Transition> transitions_;             // to be followed when they have prices
  double root_floor_{0};                            // of all operators, as this pass began
  size_t num_transitions_{0};                       // in this pass
  int pass_{0};                                     // from 1
  size_t size_{0};                                  // of the states that are expanded next
  bool progress_{false};                            // whether this round has expanded any
  bool stopped_{false};

  double upper_{kInfinity};          // the incumbent's cost
  std::vector<uint32_t> incumbent_;  // the stages of the best complete schedule so far
};

}  // namespace tvm_ios
#endif  // TVM_IOS_SEARCH_BEST_FIRST_SEARCH_H_
