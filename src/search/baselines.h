// SPDX-License-Identifier: Apache-2.0
/*!
 * \file baselines.h
 * \brief The schedules that a search must beat.
 */
#ifndef TVM_IOS_SEARCH_BASELINES_H_
#define TVM_IOS_SEARCH_BASELINES_H_

#include <cstdint>

#include "graph/dag.h"
#include "search/schedule.h"

namespace tvm_ios {

/*! \brief One operator a stage, in topological order. */
Schedule SequentialSchedule(const Dag& dag);

/*!
 * \brief As much as is ready, as soon as it is (the greedy schedule of IOS, section 6).
 *
 * Each stage takes the first max_num_groups ready operators in index order, each a group.
 *
 * \throw OptionError for a limit below one.
 */
Schedule GreedySchedule(const Dag& dag, int64_t max_num_groups);

}  // namespace tvm_ios
#endif  // TVM_IOS_SEARCH_BASELINES_H_
