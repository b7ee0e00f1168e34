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

constexpr int kSteps = 10000;
constexpr int kTries = 3;       // an interrupt may disturb one of them
constexpr size_t kChains = 12;  // more than the latency of a multiply-add times its pipelines
constexpr size_t kCopied = size_t{4} << 20;  // bytes

/*! \brief As wide as the widest registers; narrower ones take several. */
using Vector [[gnu::vector_size(64)]] = float;

/*! \brief Return the seconds of independent chains of multiply-adds. */
[[gnu::always_inline]] inline double TimeChains() {
  static std::atomic<float> result;  // keeps the loop
  std::array<Vector, kChains> chains;
  for (size_t i = 0; i < kChains; ++i) chains[i] = Vector{} + static_cast<float>(i);
  const Clock::time_point begin = Clock::now();
  for (int step = 0; step < kSteps; ++step) {
#pragma GCC unroll 12
    for (size_t i = 0; i < kChains; ++i) chains[i] = chains[i] * 0.999F + 0.001F;
  }
  const double seconds = Since(begin);
  Vector sum{};
  for (const Vector& chain : chains) sum += chain;
  result.store(sum[0], std::memory_order_relaxed);
  return seconds;
}

double TimeNarrow() { return TimeChains(); }

#ifdef __x86_64__
[[gnu::target("avx2,fma")]] double TimeAvx2() { return TimeChains(); }
[[gnu::target("avx512f")]] double TimeAvx512() { return TimeChains(); }
#endif

/*! \brief Return TimeChains compiled for the vector instructions of this processor. */
auto ChooseTimer() -> double (*)() {
#ifdef __x86_64__
  if (__builtin_cpu_supports("avx512f")) return TimeAvx512;
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return TimeAvx2;
#endif
  return TimeNarrow;
}

}  // namespace

double TimeArithmetic() {
  static double (*const time)() = ChooseTimer();
  double seconds = std::numeric_limits<double>::infinity();
  for (int attempt = 0; attempt < kTries; ++attempt) seconds = std::min(seconds, time());
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
