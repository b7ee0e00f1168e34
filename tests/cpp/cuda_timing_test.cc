// SPDX-License-Identifier: Apache-2.0
#include <tvm/ffi/error.h>

#include <algorithm>

#include "cuda_support.h"
#include "runtime/cuda/timing.h"
#include "support/error.h"

namespace tvm_ios {
namespace cuda {
namespace {

class CudaTimingTest : public CudaTest {
 protected:
  static std::vector<Stage> Runs(const Arguments& stage, size_t number) {
    std::vector<Stage> runs;
    while (runs.size() < number) runs.push_back(stage.stage());
    return runs;
  }

  /*! \brief Whatever was made for the timing is gone: what stays are streams and events of stages.
   */
  static void ExpectNothingLeft() {
    const Lines lines = Journal();
    EXPECT_EQ(Count(lines, "end s1 g"), Count(lines, "destroy g"));
    EXPECT_EQ(Count(lines, "instantiate"), Count(lines, "destroy x"));
    EXPECT_EQ(Count(lines, "destroy s"), 1);
    EXPECT_EQ(Count(lines, "destroy e"), 2);
    EXPECT_EQ(TVMFFIEnvGetStream(kDLCUDA, 0), nullptr);
  }
};

TEST_F(CudaTimingTest, StreamsRunAtTheSameTimeInAGraph) {
  // A launch takes a millisecond: two on the one stream, three on the other.
  const Arguments stage(Program(2, {{0, 0}, {1, 1}, {0, 0}, {1, 1}, {1, 1}}),
                        {Kernel("a"), Kernel("b")});
  stage.Run();
  TvmIosStandInClear();
  const std::vector<double> seconds = Time(Runs(stage, 4), 3);
  ASSERT_EQ(seconds.size(), 3u);
  for (double run : seconds) EXPECT_FLOAT_EQ(run, 0.003);
  const Lines lines = Journal();
  EXPECT_EQ(Count(lines, "begin"), 1);
  EXPECT_EQ(Count(lines, "launch"), 5 + 4 * 5);  // once to warm up
  EXPECT_EQ(Count(lines, "replay x1 s1 a b a b b a b a b b a b a b b a b a b b"), 1 + 3);
  ExpectNothingLeft();
}

TEST_F(CudaTimingTest, OneStreamIsTimedInAGraphToo) {
  const Arguments stage(Program(1, {{0, 0}, {0, 0}}), {Kernel("a")});
  EXPECT_FLOAT_EQ(Time(Runs(stage, 2), 1).at(0), 0.002);
  EXPECT_EQ(Count(Journal(), "replay x1 s1 a a a a"), 1 + 1);
  ExpectNothingLeft();
}

TEST_F(CudaTimingTest, RunsMayHaveTensorsOfTheirOwn) {
  std::vector<const void*> seen;
  const auto kernel = ffi::Function::FromPacked([&](ffi::PackedArgs args, ffi::Any*) {
    seen.push_back(args[0].cast<ffi::TensorView>().data_ptr());
    Launch(0, "a");
  });
  const ffi::Tensor first = DeviceTensor(), second = DeviceTensor();
  const Arguments one(Program(1, {{0, 0}}), {kernel}, {first});
  const Arguments other(Program(1, {{0, 0}}), {kernel}, {second});
  EXPECT_FLOAT_EQ(Time({one.stage(), other.stage()}, 1).at(0), 0.001);
  EXPECT_EQ(seen,
            (std::vector<const void*>{first.data_ptr(), first.data_ptr(), second.data_ptr()}));
  ExpectNothingLeft();
}

TEST_F(CudaTimingTest, CachesAreFilledBeforeEachTimedLaunchAndThatIsNotTimed) {
  const Arguments stage(Program(1, {{0, 0}}), {Kernel("a")});
  const ffi::Tensor filler = DeviceTensor();
  const std::vector<double> seconds = Time(Runs(stage, 1), 2, filler);
  for (double run : seconds) EXPECT_FLOAT_EQ(run, 0.001);
  Lines order;
  for (const std::string& line : Journal()) {
    if (line == "launch set s1" || line.rfind("replay", 0) == 0) order.push_back(line);
  }
  const std::string set = "launch set s1", replay = "replay x1 s1 a";
  EXPECT_EQ(order, (Lines{replay, set, replay, set, replay}));
  ExpectNothingLeft();
}

TEST_F(CudaTimingTest, WhatFillsTheTensorsIsWaitedFor) {
  const auto stage = TwoChains();
  Launch(0, "fill");
  Time(Runs(*stage, 1), 1);
  const Lines lines = Journal();
  const auto waited = std::find(lines.begin(), lines.end(), "synchronize s0");
  const auto launched = std::find(lines.begin(), lines.end(), "launch a s1");
  EXPECT_LT(waited, launched);
  ASSERT_NE(launched, lines.end());
}

TEST_F(CudaTimingTest, AfterAnErrorInTheCaptureNothingIsLeft) {
  int calls = 0;
  const auto second_fails = ffi::Function::FromPacked([&](ffi::PackedArgs, ffi::Any*) {
    if (++calls == 2) TVM_FFI_THROW(ValueError) << "not in a graph";
  });
  const Arguments stage(Program(2, {{0, 1}, {1, 0}}), {Kernel("a"), second_fails});
  EXPECT_THROW(Time(Runs(stage, 1), 1), ffi::Error);
  EXPECT_EQ(calls, 2);
  EXPECT_EQ(Count(Journal(), "end s"), 1);
  ExpectNothingLeft();
  EXPECT_EQ(Time(Runs(stage, 1), 1).size(), 1u);
}

TEST_F(CudaTimingTest, OutOfMemoryIsToldAndNothingIsLeft) {
  const auto stage = TwoChains();
  for (const char* call : {"cuGraphInstantiate", "cuGraphLaunch", "cuEventSynchronize"}) {
    const Variable fault("TVM_IOS_FAKE_DRIVER_FAIL", std::string(call) + ":1:2");
    TvmIosStandInClear();
    EXPECT_THROW(Time(Runs(*stage, 1), 1), DeviceError);
    EXPECT_EQ(Count(Journal(), std::string("fail ") + call), 1);
    ExpectNothingLeft();
  }
}

TEST_F(CudaTimingTest, CountsBelowOneAreRefused) {
  const auto stage = TwoChains();
  EXPECT_THROW(Time(Runs(*stage, 0), 1), ffi::Error);
  EXPECT_THROW(Time(Runs(*stage, 1), 0), ffi::Error);
  EXPECT_EQ(Journal(), Lines{});
}

}  // namespace
}  // namespace cuda
}  // namespace tvm_ios
