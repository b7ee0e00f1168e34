// SPDX-License-Identifier: Apache-2.0
/*!
 * \file baselines.h
 * \brief Baseline schedules, which a search must beat.
 */
#ifndef TVM_IOS_SEARCH_BASELINES_H_
#define TVM_IOS_SEARCH_BASELINES_H_

#include <cstdint>

#include "graph/dag.h"
#include "search/schedule.h"

namespace tvm_ios {

/*! \brief Return one operator per stage, in topological order. */
Schedule SequentialSchedule(const Dag& dag);

/*!
 * \brief Return the greedy schedule of IOS (section 6): all ready operators, as soon as possible.
 *
 * Each stage takes the first max_num_groups ready operators in index order, each as a group.
 *
 * \throw OptionError for a limit below one.
 */
Schedule GreedySchedule(const Dag& dag, int64_t max_num_groups);

}  // namespace tvm_ios
#endif  // TVM_IOS_SEARCH_BASELINES_H_
