// SPDX-License-Identifier: Apache-2.0
#include "runtime/stage_runner.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <sched.h>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/error.h>
#include <tvm/ffi/function.h>

#include <atomic>
#include <cstdint>
#include <cstring>
#include <thread>
#include <vector>

#include "runtime/reference_speed.h"

namespace tvm_ios {
namespace {

namespace ffi = ::tvm::ffi;

constexpr int64_t kElements = 6;
constexpr size_t kPerTurn = 2;     // seconds of the copies
constexpr size_t kPerRun = 2 + 1;  // of the arithmetic, and of one stage
constexpr int64_t kFloatCode = kDLFloat, kFloatBits = 32, kRank = 1;

template <typename T>
ffi::Bytes ToBytes(const std::vector<T>& values) {
  return ffi::Bytes(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
}

/*! \brief Adds one to a range of the second tensor and keeps the first one's values there. */
ffi::Function AddOne(std::vector<float>* seen) {
  return ffi::Function::FromTyped(
      [seen](ffi::TensorView from, ffi::TensorView to, int64_t begin, int64_t end) {
        const float* source = static_cast<const float*>(from.data_ptr());
        float* target = static_cast<float*>(to.data_ptr());
        for (int64_t i = begin; i < end; ++i) target[i] = source[i] + 1.0f;
        seen->assign(target, target + kElements);
      });
}

class StageRunnerTest : public testing::Test {
 protected:
  StageRunnerTest() {
    memory_ = runner_.AddMemory(2 * kElements * sizeof(float));
    kernel_ = runner_.kernels().Add(AddOne(&seen_), Specs());
  }

  /*! \brief The two tensors of a kernel. */
  static ffi::Bytes Specs() {
    const std::vector<int64_t> tensor{kFloatCode, kFloatBits, kRank, kElements};
    std::vector<int64_t> specs = tensor;
    specs.insert(specs.end(), tensor.begin(), tensor.end());
    return ToBytes(specs);
  }

  /*! \brief One call: from the beginning of the memory to the byte offset. */
  std::vector<int64_t> Call(int64_t offset) const { return {kernel_, memory_, 0, memory_, offset}; }

  std::vector<double> Time(const std::vector<int64_t>& calls, int64_t repeat) const {
    const std::vector<int32_t> program{0, 0, 1, 0, kElements};  // call, level, units, cuts
    return runner_.Time(ToBytes(program), one_level_, ToBytes(calls), 1, repeat);
  }

  const ffi::Bytes one_level_ = ToBytes(std::vector<int32_t>{1});
  StageRunner runner_;
  std::vector<float> seen_;
  int64_t memory_{-1};
  int64_t kernel_{-1};
};

TEST_F(StageRunnerTest, RunsAStageInPlacesOfItsMemory) {
  runner_.Fill(memory_, ToBytes(std::vector<float>{1, 2, 3}));
  runner_.Write(memory_, sizeof(float), ToBytes(std::vector<float>{20}));
  EXPECT_EQ(Time(Call(kElements * sizeof(float)), 1).size(), kPerTurn + kPerRun);
  EXPECT_EQ(seen_, (std::vector<float>{2, 21, 4, 2, 3, 4}));
}

TEST_F(StageRunnerTest, EachRunHasPlacesOfItsOwn) {
  std::vector<int64_t> calls = Call(kElements * sizeof(float));
  const std::vector<int64_t> in_place = Call(0);
  calls.insert(calls.end(), in_place.begin(), in_place.end());
  const std::vector<double> seconds = Time(calls, 2);
  ASSERT_EQ(seconds.size(), kPerTurn + 2 * kPerRun);
  EXPECT_EQ(seen_, std::vector<float>(kElements, 1.0f));
}

TEST_F(StageRunnerTest, EachStageOfARunIsTimed) {
  const std::vector<int32_t> program{0, 0, 1, 0, 1, 0, 1, 1, 1, 2, 0, 2, 1, 2, kElements};
  const ffi::Bytes rows = ToBytes(program);
  const ffi::Bytes calls = ToBytes(Call(0));
  const auto time = [&](const std::vector<int32_t>& levels) {
    return runner_.Time(rows, ToBytes(levels), calls, 1, 1);
  };
  const std::vector<double> seconds = time({2, 0, 1});
  ASSERT_EQ(seconds.size(), kPerTurn + kPerRun + 2);
  for (size_t i = 0; i < kPerTurn + 2; ++i) EXPECT_GT(seconds[i], 0.0);  // the machine's speed
  EXPECT_EQ(seconds[kPerTurn + 3], 0.0);  // a stage that computes nothing
  for (const std::vector<int32_t>& wrong :
       std::vector<std::vector<int32_t>>{{}, {2}, {2, 2}, {4, -1}, {INT32_MAX, INT32_MAX, 5}}) {
    EXPECT_THROW(time(wrong), ffi::Error);
  }
}

TEST_F(StageRunnerTest, AStageInWhichAWorkerIsPreemptedHasANegativeTime) {
  const int64_t busy = runner_.kernels().Add(
      ffi::Function::FromTyped([](const ffi::Tensor&, const ffi::Tensor&, int64_t, int64_t) {
        // Two threads of one core are preempted by each other.
        cpu_set_t core;
        CPU_ZERO(&core);
        CPU_SET(sched_getcpu(), &core);
        std::atomic<bool> done{false};
        std::thread rival([&] {
          pthread_setaffinity_np(pthread_self(), sizeof(core), &core);
          while (!done) {
          }
        });
        cpu_set_t before;
        pthread_getaffinity_np(pthread_self(), sizeof(before), &before);
        pthread_setaffinity_np(pthread_self(), sizeof(core), &core);
        const int64_t preemptions = NumPreemptions();
        while (NumPreemptions() == preemptions) {
        }
        done = true;
        rival.join();
        pthread_setaffinity_np(pthread_self(), sizeof(before), &before);
      }),
      Specs());
  const std::vector<int32_t> program{0, 0, 1, 0, kElements, 1, 1, 1, 0, kElements};
  std::vector<int64_t> calls = Call(0);
  const std::vector<int64_t> rivals{busy, memory_, 0, memory_, 0};
  calls.insert(calls.end(), rivals.begin(), rivals.end());
  const std::vector<double> seconds =
      runner_.Time(ToBytes(program), ToBytes(std::vector<int32_t>{1, 1}), ToBytes(calls), 1, 1);
  EXPECT_LT(seconds.back(), 0.0);
}

TEST_F(StageRunnerTest, NothingOutsideOfAMemoryIsAccessed) {
  const int64_t last = kElements * sizeof(float);
  for (int64_t offset : {last + 1, int64_t{-1}, int64_t{1} << 40, INT64_MAX, INT64_MIN}) {
    EXPECT_THROW(Time(Call(offset), 1), ffi::Error);
    EXPECT_THROW(runner_.Write(memory_, offset, ToBytes(std::vector<float>(kElements + 1))),
                 ffi::Error);
  }
  EXPECT_THROW(Time({kernel_, memory_ + 1, 0, memory_, 0}, 1), ffi::Error);
  EXPECT_THROW(Time({kernel_ + 1, memory_, 0, memory_, 0}, 1), ffi::Error);
  EXPECT_THROW(runner_.AddMemory(-1), ffi::Error);
  EXPECT_THROW(runner_.AddMemory(INT64_MAX), ffi::Error);
  EXPECT_THROW(Time(Call(1), 1), ffi::Error);  // not aligned
  EXPECT_THROW(runner_.Fill(memory_, ffi::Bytes()), ffi::Error);
}

TEST_F(StageRunnerTest, WhatIsCutOffIsRefused) {
  EXPECT_THROW(Time({kernel_, memory_}, 1), ffi::Error);
  EXPECT_THROW(
      runner_.kernels().Add(AddOne(&seen_), ToBytes(std::vector<int64_t>{kFloatCode, 32, 2})),
      ffi::Error);
  EXPECT_THROW(
      runner_.Time(ToBytes(std::vector<int32_t>{0, 0, 1, 0}), one_level_, ToBytes(Call(0)), 1, 1),
      ffi::Error);
  EXPECT_THROW(runner_.Time(ffi::Bytes(), one_level_, ffi::Bytes(), 1, 1), ffi::Error);
  EXPECT_THROW(Time(Call(0), 0), ffi::Error);
}

TEST_F(StageRunnerTest, WhatNoMachineHasIsRefused) {
  const ffi::Bytes program = ToBytes(std::vector<int32_t>{0, 0, 1, 0, kElements});
  for (int64_t number : {int64_t{0}, int64_t{-1}, INT64_MAX, INT64_MIN}) {
    EXPECT_THROW(runner_.Time(program, one_level_, ToBytes(Call(0)), number, 1), ffi::Error);
    EXPECT_THROW(runner_.Time(program, one_level_, ToBytes(Call(0)), 1, number), ffi::Error);
  }
  using Specs = std::vector<int64_t>;
  for (const Specs& specs :
       {Specs{kFloatCode, 32, INT64_MAX}, Specs{kFloatCode, 32, -1}, Specs{kFloatCode, 32, 1, -1},
        Specs{kFloatCode, 32, 1, INT64_MAX}, Specs{kFloatCode, 32, 2, INT64_MAX, INT64_MAX},
        Specs{kFloatCode, 0, 1, 1}, Specs{256, 32, 1, 1}}) {
    EXPECT_THROW(runner_.kernels().Add(AddOne(&seen_), ToBytes(specs)), ffi::Error);
  }
}

}  // namespace
}  // namespace tvm_ios
