// SPDX-License-Identifier: Apache-2.0
/*!
 * \file clock.h
 * \brief The clock of launches.
 */
#ifndef TVM_IOS_RUNTIME_LAUNCH_CLOCK_H_
#define TVM_IOS_RUNTIME_LAUNCH_CLOCK_H_

#include <chrono>
#include <cstdint>

namespace tvm_ios {

/*! \brief Return nanoseconds of a clock that does not go back: CLOCK_MONOTONIC on Linux. */
inline int64_t Now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

}  // namespace tvm_ios
#endif  // TVM_IOS_RUNTIME_LAUNCH_CLOCK_H_
