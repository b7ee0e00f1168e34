// SPDX-License-Identifier: Apache-2.0
#include "runtime/launch/recent_callers.h"

#include <algorithm>

namespace tvm_ios {
namespace {

constexpr uint64_t kMask = 0xffff;
/*! \brief A thread that has read the clock so many periods ago, or more, begins anew. */
constexpr uint32_t kLate = 16;

}  // namespace

int32_t RecentCallers::Count(int64_t now, int64_t* counted) {
  const auto period = static_cast<uint32_t>(now / kPeriod);
  uint64_t word = word_.load(std::memory_order_relaxed);
  uint64_t before = 0;
  uint64_t present = 0;
  uint64_t next = 0;
  do {
    const uint32_t age = period - static_cast<uint32_t>(word >> 32);
    const bool later = age > UINT32_MAX - kLate;  // another thread has read the clock since
    const bool same = age == 0 || later;
    before = same ? (word >> 16) & kMask : age == 1 ? word & kMask : 0;
    present = same ? word & kMask : 0;
    if (same && (later || *counted == period))
      return static_cast<int32_t>(std::max(before, present));
    present = std::min(present + 1, kMask);
    next = uint64_t{period} << 32 | before << 16 | present;
  } while (!word_.compare_exchange_weak(word, next, std::memory_order_relaxed));
  *counted = period;
  return static_cast<int32_t>(std::max(before, present));
}

}  // namespace tvm_ios
