// SPDX-License-Identifier: Apache-2.0
#include "search/bounded.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <utility>

#include "search/baselines.h"
#include "search/dispatch.h"
#include "search/group_choices.h"
#include "search/lower_bound.h"
#include "search/merges.h"
#include "support/bitset.h"
#include "support/deadline.h"
#include "support/error.h"
#include "support/intern_table.h"

namespace tvm_ios {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/*!
 * \brief The limits of the beam search for a first schedule, which keeps the most promising states
 * of each size.
 */
constexpr size_t kBeamWidth = 16;
constexpr size_t kBeamGroupSize = 4;
constexpr size_t kBeamGroups = 8;

/*!
 * \brief The search; it visits states by size, from all operators to none, so every state precedes
 * its successors.
 */
template <typename Bits>
class BoundedSearch {
 public:
  BoundedSearch(const Dag& dag, const SearchOptions& options, const StageModel& model,
                double seconds, const Interrupt& interrupt)
      : dag_(dag),
        graph_(dag),
        options_(options),
        model_(model),
        bound_(dag, model, options),
        deadline_(seconds),
        poller_([this, interrupt] {
          if (interrupt) interrupt();
          if (budget_.IsSpent()) throw OutOfMemory{};
        }),
        merges_(graph_, options),
        component_(graph_.num_ops),
        stack_(graph_.num_ops + 1, Frame{Bits(graph_.num_ops), {0, 0, 0}, 0, {}}) {
    for (int op = 0; op < dag.num_ops(); ++op) {
      neighbours_.push_back(graph_.predecessors[op] | graph_.successors[op]);
    }
  }

  BoundedResult Run() {
    Pruning beam = options_.pruning;
    beam.max_group_size = std::min(beam.max_group_size, kBeamGroupSize);
    beam.max_num_groups = std::min(beam.max_num_groups, kBeamGroups);
    UpdateIncumbent(SequentialSchedule(dag_));
    UpdateIncumbent(GreedySchedule(dag_, static_cast<int64_t>(options_.pruning.max_num_groups)));
    Pass(beam, kBeamWidth);
    const double open = Pass(options_.pruning, std::numeric_limits<size_t>::max());
    SearchResult result{incumbent_, upper_, num_expanded_, num_priced_, num_priced_};
    return {std::move(result), std::min(open, upper_), open >= upper_};
  }

 private:
  /*! \brief An exception that ends the expansion of a state. */
  struct OutOfMemory {};
  using Place = typename LowerBound<Bits>::Place;
  struct State {
    double cost;       // of the stages decided so far
    double work;       // of the remaining operators, as the bound counts it
    double remaining;  // a lower bound for the remaining operators
    uint32_t before;   // the predecessor state
    Strategy strategy;
  };
  /*! \brief A group, or several concurrent groups. */
  struct Group {
    double length, work, least_work;
  };
  struct Frame {
    Bits ops;
    Group sum;
    size_t max_groups;  // limit for a stage with these groups; with more, no schedule is better
    Place place;        // of what remains without these operators
  };

  /*! \brief Keep a schedule if it is the best so far. */
  void UpdateIncumbent(Schedule schedule) {
    double cost = 0;
    for (const auto& [ops, strategy] : schedule) cost += StageCost(dag_, model_, ops, strategy);
    if (cost >= upper_) return;
    upper_ = cost;
    incumbent_ = std::move(schedule);
  }

  /*!
   * \brief Run one pass and return the least total of any relevant state that it did not expand.
   */
  double Pass(const Pruning& pruning, size_t width) {
    states_ = {};
    info_.clear();
    by_size_.assign(graph_.num_ops + 1, {});
    ConnectedEndings<Bits> connected(graph_, pruning.max_group_size, &poller_);
    const Bits all = Bits::Full(graph_.num_ops);
    const double work = bound_.Work(all);
    Place place;
    Reach(all, {0, work, bound_.Of(all, work, &place), 0, Strategy::kConcurrent}, place);
    double open = kInfinity;
    for (size_t size = graph_.num_ops; size > 0; --size) {
      std::vector<uint32_t>& level = by_size_[size];
      if (level.size() > width) KeepBest(width, &level);
      for (uint32_t state : level) {
        if (Total(info_[state]) >= upper_) continue;
        if (!stopped_) TryToExpand(state, pruning.max_num_groups, &connected);
        if (stopped_) open = std::min(open, Total(info_[state]));
      }
      std::vector<uint32_t>().swap(level);
    }
    return open;
  }

  static double Total(const State& state) { return state.cost + state.remaining; }

  void KeepBest(size_t width, std::vector<uint32_t>* level) const {
    const auto better = [&](uint32_t a, uint32_t b) {
      return std::make_pair(Total(info_[a]), a) < std::make_pair(Total(info_[b]), b);
    };
    std::nth_element(level->begin(), level->begin() + static_cast<std::ptrdiff_t>(width),
                     level->end(), better);
    level->resize(width);
  }

  void TryToExpand(uint32_t state, size_t max_num_groups, ConnectedEndings<Bits>* connected) {
    try {
      Expand(state, max_num_groups, connected);
    } catch (const OutOfMemory&) {
      stopped_ = true;
    }
  }

  void Expand(uint32_t state, size_t max_num_groups, ConnectedEndings<Bits>* connected) {
    ++num_expanded_;
    const Bits remaining = states_[state];  // copies: the tables reallocate as they grow
    const State from = info_[state];
    merges_.ForEach(remaining, [&](const Bits& ops) {
      poller_.Tick();
      if (deadline_.Over()) stopped_ = true;
      if (stopped_) return;
      ++num_priced_;
      Place place;
      Consider(state, from, remaining, ops, Strategy::kMerge, Merged(ops), bound_.Work(ops),
               &place);
    });
    const double slack = upper_ - from.cost - model_.stage;
    connected->Find(
        remaining, [&](const Bits& ops) { return bound_.OfGroup(ops, Predecessors(ops)) < slack; });
    groups_.clear();
    max_groups_.clear();
    for (size_t i = 0; i < connected->size(); ++i) {
      const Bits& ops = (*connected)[i];
      const Bits before = Predecessors(ops);
      const double stages = before.Empty() ? 0 : model_.stage;  // of the predecessors
      const double spare = slack - stages - bound_.OfGroup(ops, before);
      groups_.push_back(Sum(ops));
      max_groups_.push_back(std::min(max_num_groups, MaxGroups(spare)));
    }
    if (connected->size() <= 64) {
      VisitEndings<FixedBitset<1>>(state, from, remaining, *connected);
    } else {
      VisitEndings<DynamicBitset>(state, from, remaining, *connected);
    }
  }

  /*! \brief Return the predecessors of a set of operators that are not in the set. */
  Bits Predecessors(const Bits& ops) const {
    Bits before(graph_.num_ops);
    for (int op : ops) before |= graph_.predecessors[op];
    return before - ops;
  }

  /*! \brief Return the largest number of groups whose overhead is below spare. */
  size_t MaxGroups(double spare) const {
    if (spare <= 0) return 0;
    return spare < model_.group * graph_.num_ops
               ? static_cast<size_t>(std::ceil(spare / model_.group))
               : std::numeric_limits<size_t>::max();
  }

  Group Sum(const Bits& ops) const {
    Group sum{0, 0, 0};
    for (int op : ops) {
      sum.length += model_.length[op];
      sum.work += model_.work[op];
      sum.least_work += bound_.work(op);
    }
    return sum;
  }

  /*!
   * \brief Evaluate the unions of disjoint connected endings, depth first.
   *
   * However a stage of k groups is extended, it and the operators that then remain cost at least as
   * much as the operators that remained before, plus the overhead of its groups. Unions of too many
   * groups are therefore not visited.
   */
  template <typename GroupSet>
  void VisitEndings(uint32_t state, const State& from, const Bits& remaining,
                    const ConnectedEndings<Bits>& connected) {
    GroupChoices<GroupSet, ConnectedEndings<Bits>> choices(connected, max_groups_);
    stack_[0].max_groups = std::numeric_limits<size_t>::max();
    for (size_t depth = 0; true;) {
      if (!choices.Any(depth)) {
        if (depth == 0) return;
        --depth;
        continue;
      }
      if (deadline_.Over()) {
        stopped_ = true;
        return;
      }
      poller_.Tick();
      const size_t added = choices.Take(depth);
      const double overhead = model_.group * static_cast<double>(depth);
      const Frame& child = Add(depth, added, connected[added]);
      const bool grows = depth + 1 < child.max_groups &&
                         Total(from) + overhead + model_.group < upper_ &&
                         choices.Extend(depth, added);
      const double cost = model_.stage + overhead + std::max(child.sum.length, child.sum.work);
      ++num_priced_;
      Consider(state, from, remaining, child.ops, Strategy::kConcurrent, cost, child.sum.least_work,
               &stack_[depth + 1].place);
      if (grows) ++depth;
    }
  }

  /*! \brief Return the frame that adds a group to the frame at this depth. */
  const Frame& Add(size_t depth, size_t added, const Bits& ops) {
    const Frame& below = stack_[depth];
    Frame& child = stack_[depth + 1];
    const Group& group = groups_[added];
    child.ops = below.ops | ops;
    child.sum = {std::max(below.sum.length, group.length), below.sum.work + group.work,
                 below.sum.least_work + group.least_work};
    child.max_groups = std::min(below.max_groups, max_groups_[added]);
    child.place = below.place;
    return child;
  }

  double Merged(const Bits& ops) {
    const auto [id, is_new] = merged_.Intern(ops);
    if (is_new) merged_cost_.push_back(model_.merged(std::vector<int>(ops.begin(), ops.end())));
    return merged_cost_[id];
  }

  /*!
   * \brief Add a transition by a stage if it may be part of a schedule better than the
   * incumbent.
   */
  void Consider(uint32_t state, const State& from, const Bits& remaining, const Bits& ops,
                Strategy strategy, double cost, double least_work, Place* place) {
    const double total = from.cost + cost;
    if (total >= upper_) return;
    const Bits rest = remaining - ops;
    if (rest.Empty()) return Finish(total, state, ops, strategy);
    const double work = from.work - least_work;
    if (total + (model_.stage + work) >= upper_) return;  // at least that, and quickly computed
    const double least = bound_.Of(rest, work, place);
    if (total + least < upper_) Reach(rest, {total, work, least, state, strategy}, *place);
  }

  [[gnu::cold]] void Finish(double total, uint32_t state, const Bits& ops, Strategy strategy) {
    upper_ = total;
    incumbent_ = Trace(state, ops, strategy);
  }

  void Reach(const Bits& remaining, const State& state, Place place) {
    const auto [id, is_new] = states_.Intern(remaining);
    if (is_new) {
      info_.push_back(state);
      info_.back().remaining = std::max(state.remaining, AtLeast(remaining, state, place));
      by_size_[remaining.Count()].push_back(id);
    } else if (state.cost < info_[id].cost) {
      const double remaining_cost = info_[id].remaining;
      info_[id] = state;
      info_[id].remaining = remaining_cost;
    }
  }

  /*!
   * \brief Return a lower bound for the remaining operators: at least one stage, without group
   * overhead.
   */
  double AtLeast(const Bits& remaining, const State& state, Place place) {
    if (MayBeMerged(remaining)) return 0;
    const double several = bound_.Of(remaining, state.work, &place, 2);
    if (several <= state.remaining) return several;
    double longest = 0;
    for (Bits rest = remaining; !rest.Empty(); rest -= component_) {
      FindComponent(rest);
      double length = 0;
      for (int op : component_) length += model_.length[op];
      longest = std::max(longest, length);
    }
    return std::min(model_.stage + std::max(longest, state.work), several);
  }

  /*! \brief Find the component of the first of some operators. */
  void FindComponent(const Bits& ops) {
    component_ = Bits(graph_.num_ops);
    component_.Set(*ops.begin());
    for (Bits added = component_; !added.Empty();) {
      Bits next(graph_.num_ops);
      for (int op : added) next |= neighbours_[op];
      added = (next & ops) - component_;
      component_ |= added;
    }
  }

  bool MayBeMerged(const Bits& ops) const {
    if (options_.merge_class.empty()) return false;
    const int64_t merge_class = options_.merge_class[*ops.begin()];
    return merge_class >= 0 && std::all_of(ops.begin(), ops.end(), [&](int op) {
             return options_.merge_class[op] == merge_class;
           });
  }

  /*!
   * \brief Return the schedule that begins with a stage and continues on the path by which `state`
   * was reached.
   */
  Schedule Trace(uint32_t state, const Bits& first, Strategy strategy) const {
    Schedule stages{{{first.begin(), first.end()}, strategy}};
    while (info_[state].before != state) {
      const State& to = info_[state];
      const Bits ops = states_[to.before] - states_[state];
      stages.push_back({{ops.begin(), ops.end()}, to.strategy});
      state = to.before;
    }
    return stages;
  }

  const Dag& dag_;
  const DagBits<Bits> graph_;
  const SearchOptions& options_;
  const StageModel& model_;
  const LowerBound<Bits> bound_;
  Deadline deadline_;
  const MemoryBudget budget_;
  InterruptPoller poller_;
  const MergeEnumerator<Bits> merges_;

  InternTable<Bits> states_;
  std::vector<State> info_;                     // by state
  std::vector<std::vector<uint32_t>> by_size_;  // states by number of operators
  InternTable<Bits> merged_;
  std::vector<double> merged_cost_;
  std::vector<Group> groups_;       // by connected ending of the expanded state
  std::vector<size_t> max_groups_;  // of a stage with such a group
  std::vector<Bits> neighbours_;    // of each operator
  Bits component_;
  std::vector<Frame> stack_;

  double upper_{kInfinity};  // the incumbent's cost
  Schedule incumbent_;       // the best complete schedule so far
  bool stopped_{false};
  int64_t num_expanded_{0}, num_priced_{0};
};

void CheckBounded(const SearchOptions& options, const StageModel& model, double seconds) {
  if (!(seconds >= 0)) throw OptionError("the time for a search must be at least 0 seconds");
  if (!options.replacements.empty()) {
    throw OptionError("the search with bounds merges sinks only; leave out the replacements");
  }
  if (!options.merge_class.empty() && !model.merged) {
    throw OptionError("the model must say what merged operators cost");
  }
}

}  // namespace

BoundedResult FindBoundedSchedule(const Dag& dag, const SearchOptions& options,
                                  const StageModel& model, double seconds,
                                  const Interrupt& interrupt) {
  CheckOptions(dag, options);
  CheckModel(dag, model);
  CheckBounded(options, model, seconds);
  const StageModel checked = WithCheckedMerges(model);
  return DispatchWidth(dag.num_ops(), [&](auto empty) {
    return BoundedSearch<decltype(empty)>(dag, options, checked, seconds, interrupt).Run();
  });
}

}  // namespace tvm_ios
