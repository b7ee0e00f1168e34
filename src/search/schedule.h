// SPDX-License-Identifier: Apache-2.0
/*!
 * \file schedule.h
 * \brief The results of a search.
 */
#ifndef TVM_IOS_SEARCH_SCHEDULE_H_
#define TVM_IOS_SEARCH_SCHEDULE_H_

#include <cstdint>
#include <limits>
#include <vector>

namespace tvm_ios {

/*! \brief The strategy by which a stage runs. */
enum class Strategy : int32_t {
  kConcurrent = 0,  //!< The groups run concurrently, each group's operators one after another.
  kMerge = 1,       //!< The operators are replaced by one larger operator.
};

/*! \brief Operators that run between two synchronisation points. */
struct Stage {
  /*! \brief Operators in topological order; a merged stage is one group. */
  std::vector<std::vector<int>> groups;
  Strategy strategy{Strategy::kConcurrent};
  /*! \brief The latency in seconds; NaN if unknown. */
  double latency{std::numeric_limits<double>::quiet_NaN()};
};

/*! \brief Stages in the order in which they run. */
using Schedule = std::vector<Stage>;

}  // namespace tvm_ios
#endif  // TVM_IOS_SEARCH_SCHEDULE_H_
