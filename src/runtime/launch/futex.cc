// SPDX-License-Identifier: Apache-2.0
#include "runtime/launch/futex.h"

#ifdef __linux__
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <climits>
#else
#include <algorithm>
#include <thread>
#endif

namespace tvm_ios {

#ifdef __linux__

void FutexWait(std::atomic<uint32_t>* word, uint32_t value, std::chrono::nanoseconds limit) {
  static_assert(sizeof(*word) == sizeof(uint32_t), "an atomic number is what the kernel compares");
  constexpr int64_t kSecond = 1000000000;
  const timespec time{static_cast<time_t>(limit.count() / kSecond),
                      static_cast<long>(limit.count() % kSecond)};
  syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, &time, nullptr, 0);
}

void FutexWakeAll(std::atomic<uint32_t>* word) {
  syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0);
}

#else

void FutexWait(std::atomic<uint32_t>* word, uint32_t value, std::chrono::nanoseconds limit) {
  constexpr std::chrono::nanoseconds kShort = std::chrono::microseconds(50);
  if (word->load() == value) std::this_thread::sleep_for(std::min(limit, kShort));
}

void FutexWakeAll(std::atomic<uint32_t>* /*word*/) {}

#endif

}  // namespace tvm_ios
