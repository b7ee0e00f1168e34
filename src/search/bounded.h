// SPDX-License-Identifier: Apache-2.0
/*!
 * \file bounded.h
 * \brief The dynamic programme with bounds: what cannot be part of a cheapest schedule is left out.
 *
 * States are visited from the largest to the smallest, as every stage makes what remains smaller,
 * so that the cheapest way to reach a state is known when its turn comes. A transition is dropped
 * when the way to it, its stage, and a lower bound on what then remains cost no less than a
 * schedule that is known already. No transition is stored.
 */
#ifndef TVM_IOS_SEARCH_BOUNDED_H_
#define TVM_IOS_SEARCH_BOUNDED_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "graph/dag.h"
#include "search/dp.h"
#include "search/schedule.h"
#include "support/interrupt.h"

namespace tvm_ios {

/*!
 * \brief A cost of stages that says what it is made of.
 *
 *     stage + group * (groups - 1) + max(longest group, work),
 *
 * a group being as long as its operators together, and the work that of all operators.
 */
struct StageModel {
  double stage{0};
  double group{0};
  std::vector<double> length;  //!< Of each operator: the time it takes with enough of the machine.
  std::vector<double> work;    //!< Of each operator: the time it takes of the whole machine.
  /*! \brief The cost of operators merged into one, all of it; unset where nothing is merged. */
  std::function<double(const std::vector<int>& ops)> merged;
};

/*! \throw OptionError unless the model has a length and a work of each operator, none below 0. */
void CheckModel(const Dag& dag, const StageModel& model);

/*!
 * \brief The cost of one stage.
 * \throw GraphError for operators that are no stage.
 */
double StageCost(const Dag& dag, const StageModel& model, const std::vector<int>& ops,
                 Strategy strategy);

/*! \brief A schedule, and how far from the cheapest it may be. */
struct BoundedResult {
  SearchResult result;  //!< Its transitions are those that were priced, its states those expanded.
  double lower_bound;   //!< No schedule is cheaper.
  bool proved;          //!< None is cheaper than this one.
};

/*!
 * \brief Finds a cheapest schedule under a StageModel, or as good a one as time allows.
 *
 * \param seconds After so long, or where it would take too much memory, the best schedule so far is
 *        returned, with its bound.
 * \throw OptionError for a limit below one, a time below 0, a model or classes of another number of
 * operators, or any replacements.
 */
BoundedResult FindBoundedSchedule(const Dag& dag, const SearchOptions& options,
                                  const StageModel& model, double seconds,
                                  const Interrupt& interrupt);

}  // namespace tvm_ios
#endif  // TVM_IOS_SEARCH_BOUNDED_H_
