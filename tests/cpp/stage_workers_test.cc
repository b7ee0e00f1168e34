// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/error.h>
#include <tvm/ffi/function.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <set>
#include <thread>
#include <vector>

#include "runtime/cores.h"
#include "runtime/cpu_stage.h"
#include "runtime/launch/pool.h"
#include "runtime/stage_tables.h"

namespace tvm_ios {
namespace {

namespace ffi = ::tvm::ffi;

using Clock = std::chrono::steady_clock;
using Program = std::vector<int32_t>;
using std::chrono::microseconds;
using std::chrono::milliseconds;

constexpr int32_t kTiles = 64;

/*! \brief A kernel that counts how often each tile is computed. */
class Counter {
 public:
  /*! \brief Return a kernel that calls ``body`` for each tile. */
  template <typename Body>
  ffi::Function Kernel(Body body) {
    return ffi::Function::FromTyped([this, body](int64_t begin, int64_t end) {
      for (int64_t tile = begin; tile < end; ++tile) {
        body(tile);
        counts_[tile].fetch_add(1);
      }
      num_calls_.fetch_add(1);
    });
  }

  void ExpectEach(int32_t count) const {
    for (const auto& found : counts_) EXPECT_EQ(found.load(), count);
  }
  /*! \brief Return how many tiles have been computed. */
  int32_t Sum() const {
    return std::accumulate(counts_.begin(), counts_.end(), 0,
                           [](int32_t sum, const auto& count) { return sum + count.load(); });
  }
  int32_t num_calls() const { return num_calls_.load(); }

 private:
  std::array<std::atomic<int32_t>, kTiles> counts_{};
  std::atomic<int32_t> num_calls_{0};
};

CpuStage::Times Time(const std::vector<ffi::Function>& kernels, const Program& program,
                     int64_t workers, const std::vector<int32_t>& levels) {
  const CpuStage::Tensors none(kernels.size(), ffi::Array<ffi::Tensor>());
  return CpuStage(CpuStage::Kernels(kernels.begin(), kernels.end()), none, program, workers)
      .Time(levels);
}

void SleepFor(microseconds time) { std::this_thread::sleep_for(time); }

bool HasTwoCores() {
  return std::min<size_t>(CoresOfThread().size(), HelperPool::Get().max_threads()) > 1;
}

/*!
 * \brief Delay who begins the second worker's tiles. Return whether meanwhile another thread
 * computes all but what was claimed before, which is half of them.
 */
bool StealFromDelayed() {
  Counter counter;
  std::atomic<bool> delayed{false};
  int32_t meanwhile = 0;
  const ffi::Function kernel = counter.Kernel([&](int64_t tile) {
    SleepFor(microseconds(50));
    if (tile < kTiles / 2 || delayed.exchange(true)) return;
    SleepFor(milliseconds(200));
    meanwhile = counter.Sum();
  });
  Time({kernel}, {0, 0, 32, 0, kTiles / 2, kTiles}, 2, {1});
  counter.ExpectEach(1);
  return meanwhile == kTiles - kTiles / 4;
}

TEST(CpuStageWorkers, UnitsOfADelayedThreadAreStolenAndEachTileIsComputedOnce) {
  if (!HasTwoCores()) GTEST_SKIP() << "takes two cores";
  int tries = 20;  // on a machine that others use a thread may not come
  while (!StealFromDelayed() && tries > 0) --tries;
  EXPECT_GT(tries, 0);
}

TEST(CpuStageWorkers, ATileBelongsToOneOfAtMostSoManyUnits) {
  for (const int32_t units : {1, 3, 64, 65535}) {
    Counter counter;
    const ffi::Function kernel = counter.Kernel([](int64_t) { SleepFor(microseconds(20)); });
    Time({kernel}, {0, 0, units, 0, 40, kTiles}, 2, {1});
    counter.ExpectEach(1);
    EXPECT_LE(counter.num_calls(), 2 * units);
  }
}

TEST(CpuStageWorkers, LevelsBeginWhenAllBeforeAreCompleted) {
  for (const int64_t workers : {1, 2, 5, 40}) {
    std::atomic<int32_t> completed{0};
    std::atomic<int32_t> wrong{0};
    Counter counter;
    Program program;
    std::vector<ffi::Function> kernels;
    for (int32_t level = 0; level < 6; ++level) {
      kernels.push_back(counter.Kernel([&, level](int64_t tile) {
        const int32_t before = completed.load();
        if (before < level * kTiles || before >= (level + 1) * kTiles) wrong.fetch_add(1);
        if (tile % 9 == level) SleepFor(microseconds(50));
        completed.fetch_add(1);
      }));
      program.insert(program.end(), {level, 7 * level, 4});
      for (int64_t w = 0; w < workers; ++w) {
        program.push_back(static_cast<int32_t>((w * kTiles + level) / workers % kTiles * (w > 0)));
      }
      program.push_back(kTiles);
    }
    Time(kernels, program, workers, {2, 0, 1, 3});
    counter.ExpectEach(6);
    EXPECT_EQ(wrong.load(), 0) << workers;
  }
}

TEST(CpuStageWorkers, TimesOfStagesSumUp) {
  const ffi::Function sleeps =
      ffi::Function::FromTyped([](int64_t, int64_t) { SleepFor(milliseconds(3)); });
  // Levels of one worker, of both, and of the other one; two of them are one stage.
  const Program program{0, 0, 1, 0, 1, 1, 0, 1, 1, 0, 1, 2, 0, 2, 1, 0, 0, 1};
  const auto begin = Clock::now();
  const CpuStage::Times times = Time({sleeps}, program, 2, {1, 0, 2});
  const std::chrono::duration<double> all = Clock::now() - begin;
  ASSERT_EQ(times.stages.size(), 3U);
  const auto seconds = [&](size_t stage) { return std::abs(times.stages[stage]); };
  EXPECT_GE(seconds(0), 0.003);
  EXPECT_EQ(seconds(1), 0.0);
  EXPECT_GE(seconds(2), 0.006);
  EXPECT_LE(seconds(0) + seconds(2), all.count());
}

TEST(CpuStageWorkers, AnErrorIsThrownOnceAndNoKernelIsCalledAfterIt) {
  for (const int64_t workers : {1, 2, 7}) {
    std::atomic<int32_t> failures{0};
    std::atomic<int32_t> later{0};
    const ffi::Function fails = ffi::Function::FromTyped([&](int64_t begin, int64_t) {
      failures.fetch_add(1);
      TVM_FFI_THROW(ValueError) << "tiles from " << begin;
    });
    const ffi::Function follows =
        ffi::Function::FromTyped([&](int64_t, int64_t) { later.fetch_add(1); });
    Program program;
    for (const int32_t level : {0, 1}) {
      program.insert(program.end(), {level, level, 4});
      for (int64_t w = 0; w <= workers; ++w) {
        program.push_back(static_cast<int32_t>(w * kTiles / workers));
      }
    }
    EXPECT_THROW(Time({fails, follows}, program, workers, {1, 1}), ffi::Error);
    EXPECT_GE(failures.load(), 1);
    EXPECT_LE(failures.load(), static_cast<int32_t>(CoresOfThread().size()) + 1);
    EXPECT_EQ(later.load(), 0);
    Counter counter;  // and the pool lives on
    program.resize(program.size() / 2);
    Time({counter.Kernel([](int64_t) {})}, program, workers, {1});
    counter.ExpectEach(1);
  }
}

TEST(CpuStageWorkers, RowsOfOneShareAreComputedInOrderByOneThread) {
  constexpr int32_t kRows = 12;
  for (int repetition = 0; repetition < 20; ++repetition) {
    std::array<std::vector<std::thread::id>, 2> threads;
    std::array<int64_t, 2> next{};  // plain: ThreadSanitizer sees accesses that nothing orders
    const ffi::Function strip = ffi::Function::FromTyped([&](int64_t begin, int64_t) {
      const int64_t worker = begin / kRows;
      EXPECT_EQ(begin % kRows, next[worker]++);
      threads[worker].push_back(std::this_thread::get_id());
      SleepFor(microseconds(repetition));
    });
    Program program;
    for (int32_t row = 0; row < 2 * kRows; ++row) {
      const bool second = row >= kRows;
      program.insert(program.end(), {0, 0, row == 0 ? 1 : 0, row, second ? row : row + 1, row + 1});
    }
    Time({strip}, program, 2, {1});
    for (const auto& own : threads) {
      ASSERT_EQ(own.size(), static_cast<size_t>(kRows));
      EXPECT_EQ(std::set<std::thread::id>(own.begin(), own.end()).size(), 1U);
    }
  }
}

TEST(CpuStageWorkers, WhatIsNoProgramIsRefused) {
  const ffi::Function kernel = ffi::Function::FromTyped([](int64_t, int64_t) {});
  for (const int32_t units : {-1, 0, 65536}) {
    EXPECT_THROW(Time({kernel}, {0, 0, units, 0, 1}, 1, {1}), ffi::Error);
  }
  // A level begins with a share of its own.
  EXPECT_THROW(Time({kernel}, {0, 0, 1, 0, 1, 0, 1, 0, 0, 1}, 1, {2}), ffi::Error);
}

TEST(CpuStageWorkers, KnownWorkIsTimedOnMoreWorkersThanCores) {
  for (const int64_t workers : {1, 2, 9}) {
    EXPECT_GT(CpuStage::TimeArithmetics(workers), 0.0);
    EXPECT_GT(CpuStage::TimeCopies(workers), 0.0);
  }
}

TEST(StageTables, SharesAreDividedAndContinued) {
  StageTables tables(2);
  tables.Add(0, 3, 10, 15, 7, 2);
  tables.BeginShare();
  tables.Add(1, 4, 0, 2, 8, 1);
  tables.Add(1, 4, 5, 6, 9, 1);
  tables.AddMark(5, 1);
  tables.Add(1, 3, 0, 9, 0, 1);
  const ClaimProgram* program = tables.Finish({});
  ASSERT_EQ(program->num_parts(0), 2);
  ASSERT_EQ(program->num_parts(1), 2);
  const Part& divided = program->part(0, 0);
  EXPECT_EQ(divided.num_units, 2);
  EXPECT_EQ(divided.chain, 0);
  EXPECT_EQ(divided.barrier, -1);
  EXPECT_EQ(program->units[divided.first_unit + 1].begin, 12);
  EXPECT_EQ(program->units[divided.first_unit + 1].end, 15);
  const Part& chain = program->part(1, 0);
  EXPECT_EQ(chain.num_units, 2);
  EXPECT_EQ(chain.chain, 1);
  EXPECT_EQ(program->units[chain.first_unit + 1].ahead, 9);
  const Part& after = program->part(1, 1);
  ASSERT_EQ(after.barrier, 1);
  EXPECT_EQ(program->barriers[2], 2);  // the mark
  EXPECT_EQ(program->barriers[3], 1);
  EXPECT_EQ(program->part(0, 1).barrier, 0);
}

}  // namespace
}  // namespace tvm_ios
