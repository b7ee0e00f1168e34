// SPDX-License-Identifier: Apache-2.0
/*!
 * \file schedule.h
 * \brief Candidate stages, and the schedules that consist of them.
 */
#ifndef TVM_IOS_SEARCH_SCHEDULE_H_
#define TVM_IOS_SEARCH_SCHEDULE_H_

#include <cstdint>
#include <vector>

namespace tvm_ios {

/*! \brief The strategy by which a stage runs. */
enum class Strategy : int32_t {
  kConcurrent = 0,  //!< The groups run concurrently, each group's operators one after another.
  kMerge = 1,       //!< The operators are replaced by one larger operator.
};

/*! \brief Operators that may run between two synchronisation points. */
struct Candidate {
  /*! \brief The operators, by increasing index; their components are the groups of the stage. */
  std::vector<int> ops;
  Strategy strategy{Strategy::kConcurrent};
};

/*! \brief Stages in the order in which they run. */
using Schedule = std::vector<Candidate>;

}  // namespace tvm_ios
#endif  // TVM_IOS_SEARCH_SCHEDULE_H_
