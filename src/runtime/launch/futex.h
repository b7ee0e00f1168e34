// SPDX-License-Identifier: Apache-2.0
/*!
 * \file futex.h
 * \brief Sleep until a number in memory changes.
 */
#ifndef TVM_IOS_RUNTIME_LAUNCH_FUTEX_H_
#define TVM_IOS_RUNTIME_LAUNCH_FUTEX_H_

#include <atomic>
#include <chrono>
#include <cstdint>

namespace tvm_ios {

/*!
 * \brief Sleep while ``word`` is ``value``, until it is woken or the time is over; maybe less.
 *
 * On systems other than Linux it sleeps for a short time.
 */
void FutexWait(std::atomic<uint32_t>* word, uint32_t value, std::chrono::nanoseconds limit);

/*! \brief Wake all threads that sleep on ``word``. */
void FutexWakeAll(std::atomic<uint32_t>* word);

/*! \brief Tell the core that this thread waits in a loop. */
inline void Pause() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield" ::: "memory");
#endif
}

}  // namespace tvm_ios
#endif  // TVM_IOS_RUNTIME_LAUNCH_FUTEX_H_
