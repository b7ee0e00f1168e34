// SPDX-License-Identifier: Apache-2.0
/*!
 * \file dp.h
 * \brief The dynamic programme of IOS (section 4.1, algorithm 1).
 *
 *     cost[S] = min over the candidate stages E of S of  cost[S - E] + latency[E],   cost[∅] = 0
 *
 * A state S is the set of operators that remain when the stages from some point on are decided.
 * Exploring the states is separate from solving them: latencies become known gradually, and the
 * same space is solved again each time.
 */
#ifndef TVM_IOS_SEARCH_DP_H_
#define TVM_IOS_SEARCH_DP_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "graph/dag.h"
#include "search/candidate.h"
#include "search/endings.h"
#include "search/schedule.h"
#include "support/interrupt.h"

namespace tvm_ios {

/*! \brief The limits on candidate stages. */
struct SearchOptions {
  Pruning pruning;
  /*! \brief Operators of one class may be merged; negative: never. Empty: nothing is merged. */
  std::vector<int64_t> merge_class{};
  /*! \brief Sets of operators that may be replaced by one operator if they are an ending. */
  std::vector<std::vector<int>> replacements{};
  /*! \brief The limit of transitions in a space. */
  size_t max_transitions{SIZE_MAX};
};

/*! \brief A cheapest schedule with statistics of the search. */
struct SearchResult {
  Schedule stages;
  double latency;       //!< Sum over the stages, in seconds.
  int64_t states;       //!< Non-empty sets of remaining operators that were reached.
  int64_t transitions;  //!< Pairs of a state and one of its candidate stages.
  int64_t evaluations;  //!< Candidates in the batch; merged and concurrent ones count separately.
};

/*! \brief All schedules of a graph within the limits, as states and transitions. */
class ScheduleSpace {
 public:
  virtual ~ScheduleSpace() = default;

  /*! \brief Return the distinct stages of all schedules. */
  virtual CandidateBatch Candidates() const = 0;

  /*!
   * \brief Find a cheapest schedule.
   *
   * Among several, it has the fewest stages. Remaining ties are broken from the last stage
   * backwards: the candidate that is enumerated first wins, concurrent ones before merged ones. The
   * result depends only on the arguments.
   *
   * \param latency The seconds of each candidate; infinity if a stage cannot run.
   * \throw CostError for a wrong number of latencies, or negative or NaN ones.
   * \throw ScheduleError if every schedule has a stage that cannot run.
   */
  virtual SearchResult Solve(const std::vector<double>& latency) const = 0;

  /*!
   * \brief Return the latency of the cheapest schedule that contains each candidate.
   *
   * If it exceeds the latency of a known schedule, the candidate is part of no cheaper schedule.
   *
   * \throw CostError as Solve does.
   */
  virtual std::vector<double> Through(const std::vector<double>& latency) const = 0;
};

/*!
 * \brief Explore the schedules of a graph.
 * \param interrupt Called regularly, also while the space is solved.
 * \throw OptionError for more transitions than the limit or the memory allows, a limit below one, a
 *  merge class of the wrong length, or a replacement that is empty or names an operator outside of
 *  the graph.
 */
std::unique_ptr<const ScheduleSpace> Explore(const Dag& dag, const SearchOptions& options,
                                             const Interrupt& interrupt);

/*!
 * \brief Return the endings of a set of remaining operators, for inspection.
 * \param remaining Operators together with all their predecessors.
 * \throw GraphError for operators that are out of range or lack predecessors.
 * \throw OptionError for a limit below one, or more endings than fit into memory.
 */
CandidateBatch Endings(const Dag& dag, const std::vector<int>& remaining, const Pruning& pruning,
                       const Interrupt& interrupt);

}  // namespace tvm_ios
#endif  // TVM_IOS_SEARCH_DP_H_
