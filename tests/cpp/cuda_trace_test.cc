// SPDX-License-Identifier: Apache-2.0
#include <tvm/ffi/error.h>

#include <algorithm>
#include <iterator>

#include "cuda_support.h"
#include "runtime/cuda/trace.h"
#include "support/error.h"

namespace tvm_ios {
namespace cuda {
namespace {

constexpr double kMillisecond = 1e-3;  // what a launch takes on the fake driver

class CudaTraceTest : public CudaTest {
 protected:
  /*! \brief Two launches on the one stream and three on the other; then two on one. */
  CudaTraceTest()
      : forked_(Program(2, {{0, 0}, {1, 1}, {0, 0}, {1, 1}, {1, 1}}), {Kernel("a"), Kernel("b")}),
        straight_(Program(1, {{0, 0}, {0, 0}}), {Kernel("c")}) {
    forked_.Run();  // whose stream and events stay
    TvmIosStandInClear();
  }

  std::vector<Stage> stages() const { return {forked_.stage(), straight_.stage()}; }

  /*! \brief Whatever was made for the trace is gone. */
  static void ExpectNothingLeft() {
    const Lines lines = Journal();
    EXPECT_EQ(Count(lines, "create s"), Count(lines, "destroy s"));
    EXPECT_EQ(Count(lines, "create e"), Count(lines, "destroy e"));
    EXPECT_EQ(Count(lines, "end s1 g"), Count(lines, "destroy g"));
    EXPECT_EQ(Count(lines, "instantiate"), Count(lines, "destroy x"));
    EXPECT_EQ(TVMFFIEnvGetStream(kDLCUDA, 0), nullptr);
  }

  const Arguments forked_, straight_;
};

TEST_F(CudaTraceTest, CallsRunWhenTheirStreamsComeToThem) {
  const std::vector<double> spans{0, 1, 0, 1, 1, 2, 1, 2, 2, 3, 3, 4, 4, 5};
  const std::vector<double> seconds = Trace(stages(), 3);
  ASSERT_EQ(seconds.size(), 3 * spans.size());
  for (size_t i = 0; i < seconds.size(); ++i) {
    EXPECT_FLOAT_EQ(seconds[i], kMillisecond * spans[i % spans.size()]) << i;
  }
  EXPECT_EQ(Count(Journal(), "replay"), 1 + 3);
  ExpectNothingLeft();
}

TEST_F(CudaTraceTest, EveryCallStandsBetweenTwoEventsOnItsStream) {
  Trace(stages(), 1);
  const Lines lines = Journal();
  const auto begin = std::find(lines.begin(), lines.end(), "begin s1");
  ASSERT_NE(begin, lines.end());
  EXPECT_EQ(Count(Lines(lines.begin(), begin), "node"), 0);  // the first run is a plain one
  int launches = 0;
  for (auto line = begin; line != lines.end(); ++line) {
    if (line->rfind("launch", 0) != 0) continue;
    const std::string stream = line->substr(line->rfind(' '));
    for (const std::string& around : {*std::prev(line), *std::next(line)}) {
      EXPECT_EQ(around.rfind("node e", 0), 0u) << around;
      EXPECT_EQ(around.substr(around.rfind(' ')), stream);
    }
    ++launches;
  }
  EXPECT_EQ(launches, 7);
  EXPECT_EQ(Count(lines, "node"), 1 + 2 * launches);
}

TEST_F(CudaTraceTest, AfterAnErrorInTheCaptureNothingIsLeft) {
  int calls = 0;
  const auto second_fails = ffi::Function::FromPacked([&](ffi::PackedArgs, ffi::Any*) {
    if (++calls == 2) TVM_FFI_THROW(ValueError) << "not in a graph";
  });
  const Arguments failing(Program(2, {{0, 1}, {1, 0}}), {Kernel("a"), second_fails});
  EXPECT_THROW(Trace({failing.stage()}, 1), ffi::Error);
  EXPECT_EQ(Count(Journal(), "end s"), 1);
  ExpectNothingLeft();
  EXPECT_EQ(Trace({failing.stage()}, 1).size(), 4u);
}

TEST_F(CudaTraceTest, OutOfMemoryIsToldAndNothingIsLeft) {
  for (const char* call : {"cuEventCreate:3", "cuEventRecordWithFlags:4", "cuGraphInstantiate:1",
                           "cuGraphLaunch:2", "cuStreamSynchronize:2", "cuEventElapsedTime:5"}) {
    const Variable fault("TVM_IOS_FAKE_DRIVER_FAIL", std::string(call) + ":2");
    TvmIosStandInClear();
    EXPECT_THROW(Trace(stages(), 1), DeviceError) << call;
    EXPECT_EQ(Count(Journal(), "fail"), 1) << call;
    ExpectNothingLeft();
  }
}

TEST_F(CudaTraceTest, WhatCannotBeTracedIsRefused) {
  const auto elsewhere = TwoChains(1);
  EXPECT_THROW(Trace({}, 1), ffi::Error);
  EXPECT_THROW(Trace(stages(), 0), ffi::Error);
  EXPECT_THROW(Trace({straight_.stage(), elsewhere->stage()}, 1), ffi::Error);
  EXPECT_EQ(Journal(), Lines{});
}

}  // namespace
}  // namespace cuda
}  // namespace tvm_ios
