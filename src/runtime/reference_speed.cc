// SPDX-License-Identifier: Apache-2.0
#include "runtime/reference_speed.h"

#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <limits>
#include <vector>

namespace tvm_ios {
namespace {

using Clock = std::chrono::steady_clock;

double Since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

constexpr int kSteps = 6000;
constexpr int kTries = 3;       // an interrupt may disturb one of them
constexpr size_t kChains = 16;  // more than the latency of a multiplication times its pipelines
constexpr size_t kCopied = size_t{4} << 20;  // bytes

}  // namespace

double TimeArithmetic() {
  static std::atomic<double> result;  // keeps the loop
  double seconds = std::numeric_limits<double>::infinity();
  for (int attempt = 0; attempt < kTries; ++attempt) {
    std::array<double, kChains> chains;
    for (size_t i = 0; i < kChains; ++i) chains[i] = 1.0 + static_cast<double>(i);
    const Clock::time_point begin = Clock::now();
    for (int step = 0; step < kSteps; ++step) {
      for (double& chain : chains) chain = chain * 0.999 + 0.001;
    }
    seconds = std::min(seconds, Since(begin));
    double sum = 0;
    for (double chain : chains) sum += chain;
    result.store(sum, std::memory_order_relaxed);
  }
  return seconds;
}

double TimeCopy() {
  static thread_local std::vector<char> from(kCopied, 1);
  static thread_local std::vector<char> to(kCopied);
  const Clock::time_point begin = Clock::now();
  std::copy(from.begin(), from.end(), to.begin());
  const double seconds = Since(begin);
  from[0] = to[kCopied / 2];  // the copy is read
  return seconds;
}

int64_t NumPreemptions() {
#ifdef RUSAGE_THREAD
  rusage usage{};
  if (getrusage(RUSAGE_THREAD, &usage) == 0) return usage.ru_nivcsw;
#endif
  return 0;
}

}  // namespace tvm_ios
