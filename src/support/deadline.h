// SPDX-License-Identifier: Apache-2.0
/*!
 * \file deadline.h
 * \brief A time limit that costs little to check.
 */
#ifndef TVM_IOS_SUPPORT_DEADLINE_H_
#define TVM_IOS_SUPPORT_DEADLINE_H_

#include <chrono>
#include <cstdint>

namespace tvm_ios {

/*! \brief A deadline, so many seconds from now. */
class Deadline {
 public:
  explicit Deadline(double seconds)
      : end_(seconds < 1e9 ? Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                                std::chrono::duration<double>(seconds))
                           : Clock::time_point::max()) {}

  /*! \brief Return whether the deadline has passed; reads the clock regularly. */
  bool Over() {
    if ((++ticks_ & 0xfff) == 0) over_ = over_ || Clock::now() >= end_;
    return over_;
  }

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point end_;
  uint32_t ticks_{0};
  bool over_{false};
};

}  // namespace tvm_ios
#endif  // TVM_IOS_SUPPORT_DEADLINE_H_
