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
 * Where a price lies below the floors of its operators, floors are lowered and the search begins
 * anew; see PriceTable.
 */
#ifndef TVM_IOS_SEARCH_BEST_FIRST_H_
#define TVM_IOS_SEARCH_BEST_FIRST_H_

#include <cstddef>
#include <vector>

#include "graph/dag.h"
#include "search/dp.h"
#include "search/price_table.h"
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
 * \brief Find a cheap schedule within a budget, and a lower bound for all schedules.
 *
 * The result depends only on the arguments unless time or memory ends the search.
 *
 * \param floors By operator: a stage costs at least the sum of its operators' floors, unless prices
 *  say otherwise; see PriceTable. This need not hold for merged stages: the prices of all of them
 *  are asked for, or their operators' floors are ignored.
 * \param known A schedule from which the search begins; it may be empty.
 * \param prices The prices. Each candidate is asked for once.
 * \throw CostError for a wrong number of prices, or negative or NaN ones.
 * \throw ScheduleError if every schedule that was found has a stage that cannot run.
 * \throw GraphError if `known` is not a schedule of the graph.
 * \throw OptionError as Explore does, and for floors of the wrong number, or that are not finite
 *  numbers of at least 0, or a time below 0.
 */
BoundedResult FindBestFirst(const Dag& dag, const SearchOptions& options,
                            const std::vector<double>& floors, const Schedule& known,
                            const SearchBudget& budget, const Prices& prices,
                            const Interrupt& interrupt);

}  // namespace tvm_ios
#endif  // TVM_IOS_SEARCH_BEST_FIRST_H_
