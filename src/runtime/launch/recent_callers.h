// SPDX-License-Identifier: Apache-2.0
/*!
 * \file recent_callers.h
 * \brief How many threads call models at present, those included that are between two calls.
 */
#ifndef TVM_IOS_RUNTIME_LAUNCH_RECENT_CALLERS_H_
#define TVM_IOS_RUNTIME_LAUNCH_RECENT_CALLERS_H_

#include <atomic>
#include <cstdint>

namespace tvm_ios {

/*!
 * \brief Counts the threads that have called in this period or in the one before.
 *
 * Threads that share an interpreter's lock seldom call at the same time. They need cores all the
 * same: a helper that takes one of them keeps the next caller from beginning.
 */
class RecentCallers {
 public:
  static constexpr int64_t kPeriod = 500000;

  /*!
   * \brief Count a thread that calls now, and return the number of threads.
   * \param now In nanoseconds.
   * \param counted What this has stored for the thread; at first, any negative number.
   */
  int32_t Count(int64_t now, int64_t* counted);

 private:
  /*! \brief A period, the threads of the one before it, and its own: 32, 16 and 16 bits. */
  std::atomic<uint64_t> word_{0};
};

}  // namespace tvm_ios
#endif  // TVM_IOS_RUNTIME_LAUNCH_RECENT_CALLERS_H_
