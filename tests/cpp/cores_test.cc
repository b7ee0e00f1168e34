// SPDX-License-Identifier: Apache-2.0
#include "runtime/cores.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <future>
#include <thread>
#include <utility>
#include <vector>

namespace tvm_ios {
namespace {

using std::chrono::milliseconds;

/*! \brief Ask until the answer is yes, for at most 30 s: on a busy machine threads come late, and
 * the system moves them at any time. */
bool Becomes(const std::function<bool()>& question) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (std::chrono::steady_clock::now() < end) {
    if (question()) return true;
    std::this_thread::yield();
  }
  return false;
}

TEST(Cores, ProcessorTimeStandsStillForAThreadThatDoesNotRun) {
  std::atomic<int32_t> thread{0};
  std::promise<void> runs;
  std::atomic<bool> ends{false};
  std::thread other([&] {
    thread = CurrentThread();
    runs.get_future().wait();
    while (!ends.load()) {
    }
  });
  while (thread.load() == 0) std::this_thread::yield();
  int64_t before = -1;
  const auto stands_still = [&] {
    const int64_t last = std::exchange(before, ProcessorTime(thread));
    std::this_thread::sleep_for(milliseconds(20));
    return before == last;
  };
  EXPECT_TRUE(Becomes(stands_still));
  EXPECT_GE(before, 0);
  runs.set_value();
  EXPECT_TRUE(Becomes([&] { return ProcessorTime(thread) >= before + 1000000; }));
  ends = true;
  other.join();
  EXPECT_TRUE(Becomes([&] { return ProcessorTime(thread) == -1; }));  // it has ended
}

TEST(Cores, SwappedThreadsMayRunWhereTheyMightBefore) {
  const std::vector<int> allowed = CoresOfThread();
  std::atomic<int32_t> thread{0};
  std::atomic<bool> ends{false};
  std::vector<int> of_other;
  std::thread other([&] {
    thread = CurrentThread();
    while (!ends.load()) std::this_thread::sleep_for(milliseconds(1));
    of_other = CoresOfThread();
  });
  while (thread.load() == 0) std::this_thread::yield();
  for (int i = 0; i < 100; ++i) SwapCores(thread);
  SwapCores(INT32_MAX);  // no thread of that number
  EXPECT_EQ(CoresOfThread(), allowed);
  ends = true;
  other.join();
  EXPECT_EQ(of_other, allowed);
}

TEST(Cores, TheCallingThreadTakesTheOtherOnesPlace) {
  if (CoresOfThread().size() < 2) GTEST_SKIP() << "there is one core";
  std::atomic<int32_t> thread{0};
  std::atomic<int> core{-1};
  std::atomic<bool> ends{false};
  std::thread other([&] {
    thread = CurrentThread();
    while (!ends.load()) core = CurrentCore();
  });
  while (core.load() < 0) std::this_thread::yield();
  EXPECT_TRUE(Becomes([&] {
    const int wanted = core.load();
    LeaveCore(wanted);
    const bool apart = CurrentCore() != wanted;
    SwapCores(thread);
    return apart && CurrentCore() == wanted;
  }));
  ends = true;
  other.join();
}

}  // namespace
}  // namespace tvm_ios
