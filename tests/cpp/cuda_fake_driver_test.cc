// SPDX-License-Identifier: Apache-2.0
// That the fake driver notices what it is there to notice.
#include <thread>

#include "cuda/results.h"
#include "cuda_support.h"

namespace tvm_ios {
namespace cuda {
namespace {

class CudaStandInTest : public CudaTest {
 protected:
  CudaStandInTest() : context_(0) {
    misused_ = true;
    for (Handle* stream : {&one_, &other_}) cuStreamCreate(stream, fake_driver::kStreamNonBlocking);
    cuEventCreate(&event_, fake_driver::kEventDisableTiming);
  }

  static int LaunchOn(Handle stream) {
    Handle kernel = nullptr;
    cuModuleGetFunction(&kernel, nullptr, "a");
    LaunchConfig config{};
    config.stream = stream;
    return cuLaunchKernelEx(&config, kernel, nullptr, nullptr);
  }

  /*! \brief Lets the second stream wait for the first. */
  void Fork() {
    EXPECT_EQ(cuEventRecord(event_, one_), fake_driver::kSuccess);
    EXPECT_EQ(cuStreamWaitEvent(other_, event_, 0), fake_driver::kSuccess);
  }

  const ContextScope context_;
  Handle one_{nullptr}, other_{nullptr}, event_{nullptr}, graph_{nullptr};
};

TEST_F(CudaStandInTest, AnEventThatWasNeverRecorded) {
  EXPECT_EQ(cuStreamWaitEvent(one_, event_, 0), fake_driver::kInvalidValue);
}

TEST_F(CudaStandInTest, AnEventFromOutsideOfTheCapture) {
  cuEventRecord(event_, other_);
  cuStreamBeginCapture_v2(one_, fake_driver::kGlobal);
  EXPECT_EQ(cuStreamWaitEvent(one_, event_, 0), fake_driver::kCaptureIsolation);
  EXPECT_EQ(cuStreamEndCapture(one_, &graph_), fake_driver::kCaptureInvalidated);
}

TEST_F(CudaStandInTest, AnEventOfACaptureThatHasEnded) {
  cuStreamBeginCapture_v2(one_, fake_driver::kGlobal);
  cuEventRecord(event_, one_);
  EXPECT_EQ(cuStreamEndCapture(one_, &graph_), fake_driver::kSuccess);
  EXPECT_EQ(cuStreamWaitEvent(other_, event_, 0), fake_driver::kInvalidValue);
}

TEST_F(CudaStandInTest, AStreamThatIsNotJoined) {
  cuStreamBeginCapture_v2(one_, fake_driver::kGlobal);
  Fork();
  LaunchOn(other_);
  EXPECT_EQ(cuStreamEndCapture(one_, &graph_), fake_driver::kCaptureUnjoined);
}

TEST_F(CudaStandInTest, AStreamOfTwoCaptures) {
  cuStreamBeginCapture_v2(other_, fake_driver::kRelaxed);
  cuStreamBeginCapture_v2(one_, fake_driver::kRelaxed);
  cuEventRecord(event_, one_);
  EXPECT_EQ(cuStreamWaitEvent(other_, event_, 0), fake_driver::kCaptureMerge);
  cuStreamEndCapture(one_, &graph_);
  cuStreamEndCapture(other_, &graph_);
}

TEST_F(CudaStandInTest, WhatACaptureForbids) {
  void* memory = nullptr;
  Handle stream = nullptr;
  cuStreamBeginCapture_v2(one_, fake_driver::kGlobal);
  EXPECT_EQ(cuStreamCreate(&stream, 0), fake_driver::kCaptureUnsupported);
  EXPECT_EQ(cuMemAlloc_v2(&memory, 1), fake_driver::kCaptureUnsupported);
  EXPECT_EQ(cuStreamSynchronize(one_), fake_driver::kCaptureUnsupported);
  std::thread([&] {
    EXPECT_EQ(cuMemAlloc_v2(&memory, 1), fake_driver::kCaptureUnsupported);
  }).join();
  EXPECT_EQ(cuStreamEndCapture(one_, &graph_), fake_driver::kCaptureInvalidated);
}

TEST_F(CudaStandInTest, ACaptureThatAnotherThreadEnds) {
  cuStreamBeginCapture_v2(one_, fake_driver::kThreadLocal);
  std::thread([&] {
    EXPECT_EQ(cuStreamEndCapture(one_, &graph_), fake_driver::kCaptureWrongThread);
  }).join();
  EXPECT_EQ(cuStreamEndCapture(one_, &graph_), fake_driver::kCaptureInvalidated);
}

TEST_F(CudaStandInTest, TheDefaultStreamWhileAStreamIsCapturedThatWaitsForIt) {
  Handle blocking = nullptr;
  cuStreamCreate(&blocking, 0);
  cuStreamBeginCapture_v2(blocking, fake_driver::kThreadLocal);
  EXPECT_EQ(LaunchOn(nullptr), fake_driver::kCaptureImplicit);
  EXPECT_EQ(cuStreamEndCapture(blocking, &graph_), fake_driver::kCaptureInvalidated);
}

TEST_F(CudaStandInTest, WhatIsInUseIsNotDestroyed) {
  LaunchOn(other_);
  EXPECT_EQ(cuStreamDestroy_v2(other_), fake_driver::kInvalidHandle);
  cuStreamSynchronize(other_);
  cuStreamBeginCapture_v2(one_, fake_driver::kGlobal);
  Fork();
  EXPECT_EQ(cuEventDestroy_v2(event_), fake_driver::kCapturedEvent);
  EXPECT_EQ(cuStreamDestroy_v2(other_), fake_driver::kCaptureUnsupported);
  EXPECT_EQ(cuStreamEndCapture(one_, &graph_), fake_driver::kCaptureInvalidated);
  EXPECT_EQ(cuStreamDestroy_v2(other_), fake_driver::kSuccess);
  EXPECT_EQ(cuStreamDestroy_v2(other_), fake_driver::kInvalidHandle);
}

TEST_F(CudaStandInTest, ARecordThatIsANodeWhileNothingIsCaptured) {
  EXPECT_EQ(cuEventRecordWithFlags(event_, one_, fake_driver::kEventRecordExternal),
            fake_driver::kInvalidValue);
}

TEST_F(CudaStandInTest, AStreamWhoseLastNodeIsNotJoined) {
  cuStreamBeginCapture_v2(one_, fake_driver::kGlobal);
  Fork();
  cuEventRecordWithFlags(event_, other_, fake_driver::kEventRecordExternal);
  EXPECT_EQ(cuStreamEndCapture(one_, &graph_), fake_driver::kCaptureUnjoined);
}

TEST_F(CudaStandInTest, AnEventThatIsDestroyedBeforeItsGraph) {
  Handle exec = nullptr;
  cuStreamBeginCapture_v2(one_, fake_driver::kGlobal);
  cuEventRecordWithFlags(event_, one_, fake_driver::kEventRecordExternal);
  EXPECT_EQ(cuStreamEndCapture(one_, &graph_), fake_driver::kSuccess);
  EXPECT_EQ(cuGraphInstantiateWithFlags(&exec, graph_, 0), fake_driver::kSuccess);
  EXPECT_EQ(cuEventDestroy_v2(event_), fake_driver::kCapturedEvent);
  EXPECT_EQ(cuGraphExecDestroy(exec), fake_driver::kSuccess);
  EXPECT_EQ(cuEventDestroy_v2(event_), fake_driver::kSuccess);
}

TEST_F(CudaStandInTest, AnotherDevicesContext) {
  const ContextScope context(1);
  Handle event = nullptr;
  cuEventCreate(&event, 0);
  EXPECT_EQ(cuEventRecord(event, one_), fake_driver::kInvalidHandle);
}

}  // namespace
}  // namespace cuda
}  // namespace tvm_ios
