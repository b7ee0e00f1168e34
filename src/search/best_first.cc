// SPDX-License-Identifier: Apache-2.0
#include "search/best_first.h"

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <queue>
#include <string>
#include <utility>

#include "search/baselines.h"
#include "search/dispatch.h"
#include "search/merges.h"
#include "support/bitset.h"
#include "support/deadline.h"
#include "support/error.h"
#include "support/intern_table.h"

namespace tvm_ios {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

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
class BestFirstSearch {
 public:
  BestFirstSearch(const Dag& dag, const SearchOptions& options, const std::vector<double>& floors,
                  const SearchBudget& budget, const Prices& prices, const Interrupt& interrupt)
      : dag_(dag),
        graph_(dag),
        options_(options),
        budget_(budget),
        deadline_(budget.seconds),
        poller_([this, interrupt] {
          if (interrupt) interrupt();
          if (memory_.IsSpent()) throw OutOfBudget{};
        }),
        merges_(graph_, options),
        prices_(floors, prices) {
    const Pruning& own = options.pruning;
    for (const auto& [group_size, num_groups] : kNarrow) {
      if (group_size >= own.max_group_size && num_groups >= own.max_num_groups) break;
      AddLevel(
          {std::min(group_size, own.max_group_size), std::min(num_groups, own.max_num_groups)});
    }
    AddLevel(own);
  }

  BoundedResult Run(const Schedule& known) {
    const size_t groups = std::min<size_t>(options_.pruning.max_num_groups, dag_.num_ops());
    std::vector<Schedule> schedules{SequentialSchedule(dag_),
                                    GreedySchedule(dag_, static_cast<int64_t>(groups))};
    if (!known.empty()) schedules.push_back(known);
    PriceMerges();
    for (const auto& schedule : schedules) Take(schedule);
    for (int pass = 0; pass < kPasses && (pass == 0 || Lowered() > 0); ++pass) Search();
    if (upper_ == kInfinity) {
      throw ScheduleError(
          "every schedule has a stage of infinite latency; "
          "give each operator on its own a finite one");
    }
    const double bound = LowerBound();
    SearchResult result{Output(), upper_, static_cast<int64_t>(states_.size()),
                        static_cast<int64_t>(num_transitions_),
                        static_cast<int64_t>(prices_.size())};
    return {std::move(result), std::min(bound, upper_), bound >= upper_};
  }

 private:
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

  /*! \brief Keep a schedule if it is the best so far. */
  void Take(const Schedule& schedule) {
    std::vector<uint32_t> stages;
    for (const Candidate& stage : schedule) {
      Bits ops(graph_.num_ops);
      for (int op : stage.ops) ops.Set(op);
      stages.push_back(prices_.Add(ops, stage.strategy));
    }
    prices_.Ask();
    Keep(std::move(stages));
  }

  void Keep(std::vector<uint32_t> stages) {
    double total = 0;
    for (uint32_t stage : stages) total += prices_[stage];
    if (total >= upper_) return;
    upper_ = total;
    stages_ = std::move(stages);
  }

  /*! \brief Ask for the prices of all merged stages, which have no floors of their own. */
  void PriceMerges() {
    std::map<int64_t, std::vector<int>> classes;
    for (size_t op = 0; op < options_.merge_class.size(); ++op) {
      if (options_.merge_class[op] >= 0) classes[options_.merge_class[op]].push_back(op);
    }
    for (const auto& [number, members] : classes) {
      if (members.size() > kMaxMerged) {
        for (int op : members) prices_.RemoveFloor(op);
      } else {
        AddSubsets(members);
      }
    }
    for (const std::vector<int>& ops : options_.replacements) AddMerged(ops);
    prices_.Ask();
  }

  /*! \brief Add the sets of operators that can be sinks at the same time. */
  void AddSubsets(const std::vector<int>& members) {
    for (uint32_t subset = 1; subset < 1U << members.size(); ++subset) {
      std::vector<int> ops;
      for (size_t i = 0; i < members.size(); ++i) {
        if ((subset >> i & 1) != 0) ops.push_back(members[i]);
      }
      const bool independent = std::all_of(ops.begin(), ops.end(), [&](int a) {
        return std::none_of(ops.begin(), ops.end(),
                            [&](int b) { return a != b && graph_.descendants[a].Test(b); });
      });
      if (independent) AddMerged(ops);
    }
  }

  void AddMerged(const std::vector<int>& ops) {
    Bits set(graph_.num_ops);
    for (int op : ops) set.Set(op);
    prices_.Add(set, Strategy::kMerge);
  }

  void Search() {
    states_.Clear();
    info_.clear();
    num_transitions_ = 0;
    stopped_ = false;
    queues_.assign(graph_.num_ops + 1, {});
    const Bits all = Bits::Full(graph_.num_ops);
    root_floor_ = prices_.Floor(all);
    Reach(all, {0, kNone, kNone, 0, true});
    for (bool progress = true; progress && !stopped_;) {
      progress = false;
      for (size_t size = graph_.num_ops; size > 0 && !stopped_; --size) {
        progress = ExpandBest(&queues_[size]) || progress;
      }
    }
  }

  /*! \brief Return by how much prices have lowered the floors since this pass began. */
  double Lowered() const {
    return std::max(0.0, root_floor_ - prices_.Floor(Bits::Full(graph_.num_ops)));
  }

  double Total(uint32_t state) const { return info_[state].cost + prices_.Floor(states_[state]); }

  /*! \brief Expand the most promising states of a queue; return whether there were any. */
  bool ExpandBest(std::priority_queue<Entry>* queue) {
    expanded_.clear();
    transitions_.clear();
    while (expanded_.size() < kWidth && !queue->empty() && !stopped_) {
      const Entry entry = queue->top();
      queue->pop();
      const State& state = info_[entry.state];
      if (entry.cost != state.cost || Total(entry.state) >= upper_) continue;
      TryToExpand(entry.state);
    }
    prices_.Ask();
    for (const Transition& transition : transitions_) Follow(transition);
    return !expanded_.empty();
  }

  void TryToExpand(uint32_t state) {
    expanded_.push_back(state);
    try {
      const bool complete = Expand(state);
      State& info = info_[state];
      ++info.level;
      info.is_open = info.level < endings_.size() || !complete;
      if (info.level < endings_.size()) Enqueue(state);
    } catch (const OutOfBudget&) {
      stopped_ = true;
    }
  }

  /*! \brief Collect the transitions of a state; return whether there are no others at this level.
   */
  bool Expand(uint32_t state) {
    bool complete = true;
    const Bits remaining = states_[state];
    const auto add = [&](const Bits& ops, Strategy strategy) {
      poller_.Tick();
      if (num_transitions_ == budget_.max_transitions || deadline_.Over()) throw OutOfBudget{};
      ++num_transitions_;
      std::optional<uint32_t> candidate = prices_.Find(ops, strategy);
      if (!candidate && prices_.size() < budget_.max_candidates) {
        candidate = prices_.Add(ops, strategy);
      }
      if (candidate) transitions_.push_back({state, *candidate});
      complete = complete && candidate.has_value();
    };
    merges_.ForEach(remaining, [&](const Bits& ops) { add(ops, Strategy::kMerge); });
    endings_[info_[state].level].ForEach(remaining,
                                         [&](const Bits& ops) { add(ops, Strategy::kConcurrent); });
    return complete;
  }

  void Follow(const Transition& transition) {
    const double cost = info_[transition.from].cost + prices_[transition.candidate];
    if (cost >= upper_) return;
    const Bits rest = states_[transition.from] - prices_.candidate(transition.candidate).ops;
    if (rest.Empty()) {
      Keep(Trace(transition));
    } else if (cost + prices_.Floor(rest) < upper_) {
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
    // What was not followed cost as much as the best schedule by the floors of that time.
    double bound = upper_ - Lowered();
    for (uint32_t state = 0; state < states_.size(); ++state) {
      if (info_[state].is_open) bound = std::min(bound, Total(state));
    }
    return bound;
  }

  Schedule Output() const {
    Schedule schedule;
    for (uint32_t id : stages_) {
      const auto& [ops, strategy] = prices_.candidate(id);
      schedule.push_back({{ops.begin(), ops.end()}, strategy});
    }
    return schedule;
  }

  const Dag& dag_;
  const DagBits<Bits> graph_;
  const SearchOptions& options_;
  const SearchBudget& budget_;
  Deadline deadline_;
  const MemoryBudget memory_;
  InterruptPoller poller_;
  const MergeEnumerator<Bits> merges_;
  std::vector<EndingEnumerator<Bits>> endings_;  // by level
  PriceTable<Bits> prices_;

  InternTable<Bits> states_;
  std::vector<State> info_;                         // by state
  std::vector<std::priority_queue<Entry>> queues_;  // by number of operators
  std::vector<uint32_t> expanded_;                  // together
  std::vector<Transition> transitions_;             // of these states
  double root_floor_{0};                            // of all operators, as this pass began
  size_t num_transitions_{0};                       // in this pass
  bool stopped_{false};

  double upper_{kInfinity};  // the best schedule's cost
  std::vector<uint32_t> stages_;
};

/*! \throw GraphError unless each operator occurs once and not before its predecessors. */
void CheckKnown(const Dag& dag, const Schedule& known) {
  if (known.empty()) return;
  std::vector<size_t> stage_of(dag.num_ops(), SIZE_MAX);
  size_t count = 0;
  for (size_t i = 0; i < known.size(); ++i) {
    if (known[i].ops.empty()) throw GraphError("a stage of the known schedule has no operators");
    for (int op : known[i].ops) {
      if (op < 0 || op >= dag.num_ops() || stage_of[op] != SIZE_MAX) {
        throw GraphError("the known schedule must have each operator of the graph once");
      }
      stage_of[op] = i;
      ++count;
    }
  }
  if (count != static_cast<size_t>(dag.num_ops())) {
    throw GraphError("the known schedule must have each operator of the graph once");
  }
  for (int op = 0; op < dag.num_ops(); ++op) {
    for (int successor : dag.successors(op)) {
      if (stage_of[successor] >= stage_of[op]) continue;
      throw GraphError("the known schedule has operator " + std::to_string(successor) +
                       " before its predecessor " + std::to_string(op));
    }
  }
}

void CheckFloors(const Dag& dag, const std::vector<double>& floors) {
  if (floors.size() != static_cast<size_t>(dag.num_ops())) {
    throw OptionError("there are " + std::to_string(floors.size()) + " floors for " +
                      std::to_string(dag.num_ops()) + " operators");
  }
  for (double floor : floors) {
    if (floor >= 0 && floor < kInfinity) continue;
    throw OptionError("a floor must be a finite number of at least 0, got " +
                      std::to_string(floor));
  }
}

}  // namespace

BoundedResult FindBestFirst(const Dag& dag, const SearchOptions& options,
                            const std::vector<double>& floors, const Schedule& known,
                            const SearchBudget& budget, const Prices& prices,
                            const Interrupt& interrupt) {
  CheckOptions(dag, options);
  CheckFloors(dag, floors);
  CheckKnown(dag, known);
  if (!(budget.seconds >= 0)) {
    throw OptionError("the time for a search must be at least 0 seconds");
  }
  return DispatchWidth(dag.num_ops(), [&](auto empty) {
    return BestFirstSearch<decltype(empty)>(dag, options, floors, budget, prices, interrupt)
        .Run(known);
  });
}

}  // namespace tvm_ios
