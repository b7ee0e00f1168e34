// SPDX-License-Identifier: Apache-2.0
/*!
 * \file dp.h
 * \brief The dynamic programme of IOS (section 4.1, algorithm 1).
 *
 *     cost[S] = min over the candidate stages E of S of  cost[S - E] + latency[E],   cost[∅] = 0
 *
 * A state S is what remains when the stages from some point on are decided. Exploring the states
 * is kept apart from solving them: latencies become known bit by bit, and every time a few more are
 * the same space is solved again.
 */
#ifndef TVM_IOS_SEARCH_DP_H_
#define TVM_IOS_SEARCH_DP_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "graph/dag.h"
#include "search/endings.h"
#include "search/schedule.h"
#include "support/interrupt.h"

namespace tvm_ios {

/*! \brief Distinct stages whose latencies the search asks for. */
struct CandidateBatch {
  /*! \brief Words of 64 bits a set of operators takes. */
  size_t words;
  /*! \brief Candidate i is the set in words [i * words, (i + 1) * words); bit k of it is op k. */
  std::vector<uint64_t> ops;
  std::vector<int32_t> strategies;

  size_t size() const { return strategies.size(); }
};

/*! \brief What may be a stage. */
struct SearchOptions {
  Pruning pruning;
  /*! \brief Operators of one class may be merged; negative: never. Empty: nothing is merged. */
  std::vector<int64_t> merge_class{};
  /*! \brief Sets of operators that may be replaced by one where they are an ending. */
  std::vector<std::vector<int>> replacements{};
  /*! \brief Transitions that a space may have. */
  size_t max_transitions{SIZE_MAX};
};

/*! \brief A cheapest schedule, and what it took to find it. */
struct SearchResult {
  Schedule stages;
  double latency;       //!< Sum over the stages, in seconds.
  int64_t states;       //!< Non-empty sets of remaining operators that were reached.
  int64_t transitions;  //!< Pairs of a state and a candidate stage of it.
  int64_t evaluations;  //!< Candidates in the batch; merged and concurrent ones count apart.
};

/*! \brief All schedules of a graph within the limits, as states and the transitions between them.
 */
class ScheduleSpace {
 public:
  virtual ~ScheduleSpace() = default;

  /*! \brief The distinct stages of all schedules. */
  virtual CandidateBatch Candidates() const = 0;

  /*!
   * \brief Finds a cheapest schedule.
   *
   * Of several the one of fewest stages; then, from the last stage backwards, the candidate that is
   * enumerated first, concurrent ones before merged ones. The result does not depend on anything
   * but the arguments.
   *
   * \param latency Of each candidate in seconds; infinity where a stage cannot run like that.
   * \throw CostError for latencies that are too many or few, negative or not a number.
   * \throw ScheduleError where every schedule has a stage that cannot run.
   */
  virtual SearchResult Solve(const std::vector<double>& latency) const = 0;

  /*!
   * \brief The latency of the cheapest schedule that each candidate is a stage of.
   *
   * What a stage is worth looking at for: where this exceeds the latency of a schedule that is
   * known, no such stage is part of a cheaper one.
   *
   * \throw CostError as Solve does.
   */
  virtual std::vector<double> Through(const std::vector<double>& latency) const = 0;
};

/*!
 * \brief Explores the schedules of a graph.
 *
 * \param interrupt Called now and then, also while the space is solved.
 * \throw OptionError for more transitions than there may be or than there is memory for, a limit
 * below one, a merge class of the wrong length, or a replacement of no operators or of one that is
 * not in the graph.
 */
std::unique_ptr<const ScheduleSpace> Explore(const Dag& dag, const SearchOptions& options,
                                             const Interrupt& interrupt);

/*!
 * \brief The endings of a set of remaining operators, for inspection.
 *
 * \param remaining Operators together with all their predecessors.
 * \throw GraphError for operators out of range or without their predecessors.
 * \throw OptionError for a limit below one, or more endings than there is memory for.
 */
CandidateBatch Endings(const Dag& dag, const std::vector<int>& remaining, const Pruning& pruning,
                       const Interrupt& interrupt);

}  // namespace tvm_ios
#endif  // TVM_IOS_SEARCH_DP_H_
