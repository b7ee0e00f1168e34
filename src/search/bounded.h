// SPDX-License-Identifier: Apache-2.0
/*!
 * \file bounded.h
 * \brief The dynamic programme with lower bounds, which prune states that no cheapest schedule
 * contains.
 *
 * States are visited from the largest to the smallest. Every stage reduces the remaining operators,
 * so the cheapest path to a state is known when the state is visited. A transition is pruned if the
 * path to it, its stage, and a lower bound for the operators that then remain cost no less than a
 * known schedule. No transition is stored.
 */
#ifndef TVM_IOS_SEARCH_BOUNDED_H_
#define TVM_IOS_SEARCH_BOUNDED_H_

#include <cstdint>

#include "graph/dag.h"
#include "search/best_first.h"
#include "search/dp.h"
#include "search/stage_model.h"
#include "support/interrupt.h"

namespace tvm_ios {

/*!
 * \brief Find a cheapest schedule under a StageModel, or the best one within the time limit.
 * \param seconds The time limit. When it is reached, or when the search would take too much memory,
 *  the best schedule so far is returned with its bound.
 * \throw OptionError for a limit below one, a time below 0, a model or classes for another number
 *  of operators, or any replacements.
 */
BoundedResult FindBoundedSchedule(const Dag& dag, const SearchOptions& options,
                                  const StageModel& model, double seconds,
                                  const Interrupt& interrupt);

}  // namespace tvm_ios
#endif  // TVM_IOS_SEARCH_BOUNDED_H_
