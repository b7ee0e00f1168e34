// SPDX-License-Identifier: Apache-2.0
/*!
 * \file best_first.h
 * \brief A best-first search for blocks with too many schedules to explore, under any prices.
 *
 * A state is a set of remaining operators, as in dp.h. Its total is the cheapest known cost of the
 * stages decided so far, plus a floor for the operators that remain. The search goes through the
 * sizes of states, from all operators to none, again and again. Each time it expands the states of
 * least total of each size, so that every round ends with schedules. No schedule costs less than
 * the least total of the states that were not expanded completely.
 *
 * Where a price lies below the floors of its operators, floors are reduced and the search begins
 * anew; see PriceTable.
 */
#ifndef TVM_IOS_SEARCH_BEST_FIRST_H_
#define TVM_IOS_SEARCH_BEST_FIRST_H_

#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

#include "graph/dag.h"
#include "search/candidate.h"
#include "search/dp.h"
#include "search/schedule.h"
#include "support/interrupt.h"

namespace tvm_ios {

/*! \brief A schedule with a lower bound. */
struct BoundedResult {
  SearchResult result;  //!< Counts considered transitions, reached states and priced candidates.
  double lower_bound;   //!< No schedule is cheaper.
  bool proved;          //!< No schedule is cheaper than this one.
};

/*! \brief When the search gives up proving that its schedule is the cheapest. */
struct SearchBudget {
  size_t max_transitions;  //!< Considered transitions, each time that the search begins.
  size_t max_candidates;   //!< Priced candidates; the search goes on with those that it has.
  double seconds;          //!< Time; unlike the others, it makes the result depend on the machine.
};

/*!
 * \brief A search that is repeated as prices change, and that pauses where it needs new ones.
 *
 * Candidates keep their numbers, in the order in which they were first interned. The result depends
 * only on the arguments of all calls, unless time or memory ends the search.
 */
class BestFirst {
 public:
  virtual ~BestFirst() = default;

  /*! \brief Return the candidates from a number on. */
  virtual CandidateBatch Candidates(size_t begin) const = 0;

  /*! \brief Return how many candidates, the first ones, have a price in this search. */
  virtual size_t num_priced() const = 0;

  /*!
   * \brief Begin a search; any other one ends.
   * \param seconds The prices of the first candidates, in the order of their numbers.
   * \param known A schedule of the graph from which the search begins; it may be empty.
   * \param priced_only Whether to consider no other stages than those whose price is finite. Their
   *  limits are not checked.
   * \throw CostError for too many prices, or negative or NaN ones.
   */
  virtual void Begin(const std::vector<double>& seconds, const Schedule& known,
                     bool priced_only) = 0;

  /*!
   * \brief Search on; return whether the search has ended. Else the candidates that have no price
   * need one.
   */
  virtual bool Advance(const Interrupt& interrupt) = 0;

  /*!
   * \brief Set the prices of all candidates that have none.
   * \throw CostError for a wrong number of prices, or negative or NaN ones.
   */
  virtual void Price(const std::vector<double>& seconds) = 0;

  /*!
   * \brief Return what a search has found that has ended.
   * \throw ScheduleError if every schedule that was found has a stage that cannot run.
   */
  virtual BoundedResult Result() const = 0;
};

/*!
 * \brief Make a search.
 * \param floors By operator: a stage costs at least the sum of its operators' floors, unless prices
 *  say otherwise; see PriceTable. This need not hold for merged stages: the prices of all of them
 *  are asked for, or their operators' floors are ignored.
 * \throw OptionError as Explore does, and for floors of the wrong number, or that are not finite
 *  numbers of at least 0, or a time below 0.
 */
std::unique_ptr<BestFirst> MakeBestFirst(const Dag& dag, const SearchOptions& options,
                                         const std::vector<double>& floors,
                                         const SearchBudget& budget);

/*!
 * \brief Advance several searches side by side, on as many threads; return which have ended.
 * \param interrupt Called on this thread only. What it throws ends all of them.
 */
std::vector<bool> AdvanceAll(const std::vector<BestFirst*>& searches, size_t num_threads,
                             const Interrupt& interrupt);

/*! \brief A function that returns the seconds of each candidate of a batch. */
using Prices = std::function<std::vector<double>(const CandidateBatch& batch)>;

/*!
 * \brief Find a cheap schedule within a budget, and a lower bound for all schedules.
 *
 * \param prices The prices. Each candidate is asked for once.
 * \throw CostError, ScheduleError, OptionError as the functions of BestFirst do.
 * \throw GraphError if `known` is not a schedule of the graph.
 */
BoundedResult FindBestFirst(const Dag& dag, const SearchOptions& options,
                            const std::vector<double>& floors, const Schedule& known,
                            const SearchBudget& budget, const Prices& prices,
                            const Interrupt& interrupt);

}  // namespace tvm_ios
#endif  // TVM_IOS_SEARCH_BEST_FIRST_H_
