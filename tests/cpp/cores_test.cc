// SPDX-License-Identifier: Apache-2.0
#include "runtime/cores.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

namespace tvm_ios {
namespace {

using std::chrono::milliseconds;

TEST(Cores, ProcessorTimeStandsStillForAThreadThatDoesNotRun) {
  std::atomic<int32_t> thread{0};
  std::atomic<bool> runs{false};
  std::atomic<bool> ends{false};
  std::thread other([&] {
    thread = CurrentThread();
    while (!runs.load()) std::this_thread::sleep_for(milliseconds(100));
    while (!ends.load()) {
    }
  });
  while (thread.load() == 0) std::this_thread::yield();
  std::this_thread::sleep_for(milliseconds(20));  // it sleeps by now
  const int64_t before = ProcessorTime(thread);
  EXPECT_GE(before, 0);
  EXPECT_EQ(ProcessorTime(thread), before);
  runs = true;
  while (ProcessorTime(thread) < before + 1000000) std::this_thread::yield();
  ends = true;
  other.join();
  EXPECT_EQ(ProcessorTime(thread), -1);  // it has ended
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
  // On a busy machine the system may keep both on one core, or move one in between: try again.
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  bool taken = false;
  while (!taken && std::chrono::steady_clock::now() < end) {
    const int wanted = core.load();
    LeaveCore(wanted);
    const bool apart = CurrentCore() != wanted;
    SwapCores(thread);
    taken = apart && CurrentCore() == wanted;
  }
  ends = true;
  other.join();
  EXPECT_TRUE(taken);
}

}  // namespace
}  // namespace tvm_ios
