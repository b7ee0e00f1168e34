// SPDX-License-Identifier: Apache-2.0
/*!
 * \file interrupt.h
 * \brief Interruption of long loops by the user.
 */
#ifndef TVM_IOS_SUPPORT_INTERRUPT_H_
#define TVM_IOS_SUPPORT_INTERRUPT_H_

#include <chrono>
#include <cstddef>
#include <functional>
#include <utility>

namespace tvm_ios {

/*! \brief A function that is called regularly during long work; it throws to abort the work. */
using Interrupt = std::function<void()>;

/*!
 * \brief A poller that calls an Interrupt about every 20 ms, at the cost of a counter per tick.
 *
 * A tick stands for less than ten microseconds of work.
 */
class InterruptPoller {
 public:
  explicit InterruptPoller(Interrupt interrupt) : interrupt_(std::move(interrupt)) {}

  /*! \param count The ticks of the work that was done. */
  void Tick(size_t count = 1) {
    ticks_ += count;
    if (ticks_ < kTicksPerLook) return;
    ticks_ = 0;
    Look();
  }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr size_t kTicksPerLook = 1024;  // between two readings of the clock

  void Look() {
    const Clock::time_point now = Clock::now();
    if (now - last_ < std::chrono::milliseconds(20)) return;
    last_ = now;
    if (interrupt_) interrupt_();
  }

  Interrupt interrupt_;
  Clock::time_point last_{Clock::now()};
  size_t ticks_{0};
};

}  // namespace tvm_ios
#endif  // TVM_IOS_SUPPORT_INTERRUPT_H_
