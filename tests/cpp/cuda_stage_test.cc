// SPDX-License-Identifier: Apache-2.0
#include <tvm/ffi/error.h>

#include <functional>
#include <stdexcept>

#include "cuda_support.h"
#include "runtime/cuda/handles.h"
#include "runtime/cuda/stage.h"
#include "support/error.h"

namespace tvm_ios {
namespace cuda {
namespace {

class CudaStageTest : public CudaTest {};

/*! \brief A run of TwoChains whose streams are there. */
const Lines kTwoChains{"record e1 s0", "wait s1 e1",  "launch a s0",  "launch b s1",
                       "launch c s0",  "launch d s1", "record e2 s1", "wait s0 e2"};

ffi::Function Throwing() {
  return ffi::Function::FromPacked([](ffi::PackedArgs, ffi::Any*) {
    TVM_FFI_THROW(ValueError) << "this kernel does not like its tensors";
  });
}

std::string MessageOf(const std::function<void()>& call) {
  try {
    call();
  } catch (const std::exception& error) {
    return error.what();
  }
  return "nothing was thrown";
}

TEST_F(CudaStageTest, AStageOfOneStreamOnlyLaunches) {
  Arguments(Program(1, {{1, 0}, {0, 0}}), {Kernel("a"), Kernel("b")}).Run();
  EXPECT_EQ(Journal(), (Lines{"launch b s0", "launch a s0"}));
}

TEST_F(CudaStageTest, SideStreamsAreForkedAndJoined) {
  const auto stage = TwoChains();
  stage->Run();
  TvmIosStandInClear();
  stage->Run();
  EXPECT_EQ(Journal(), kTwoChains);
}

TEST_F(CudaStageTest, EachSideStreamIsJoinedByAnEventOfItsOwn) {
  const Arguments stage(Program(3, {{0, 1}, {0, 2}, {0, 0}}), {Kernel("a")});
  stage.Run();
  TvmIosStandInClear();
  stage.Run();
  EXPECT_EQ(Journal(),
            (Lines{"record e1 s0", "wait s1 e1", "wait s2 e1", "launch a s1", "launch a s2",
                   "launch a s0", "record e2 s2", "wait s0 e2", "record e3 s1", "wait s0 e3"}));
}

TEST_F(CudaStageTest, TheFirstStreamIsTheCurrentOne) {
  const auto stage = TwoChains();
  stage->Run();
  const ContextScope context(0);
  const StreamHandle mine = MakeStream();
  StreamScope current(0);
  current.Set(mine.get());
  TvmIosStandInClear();
  stage->Run();
  EXPECT_EQ(TVMFFIEnvGetStream(kDLCUDA, 0), mine.get());
  EXPECT_EQ(Journal()[1], "wait s2 e1");
  EXPECT_EQ(Journal()[2], "launch a s1");
  EXPECT_EQ(Journal().back(), "wait s1 e2");
  Driver::Get().cuStreamSynchronize(mine.get());
}

TEST_F(CudaStageTest, CallsWaitForOthers) {
  // b waits for a; c follows a on its stream, and waits for b; d waits for nothing.
  const Arguments stage({3, 0,              //
                         0, 0, 0, 1, 0,     //
                         1, 1, 1, 0, 1, 0,  //
                         2, 0, 1, 1, 1, 0,  //
                         3, 2, 0, 1, 0},
                        {Kernel("a"), Kernel("b"), Kernel("c"), Kernel("d")});
  stage.Run();
  TvmIosStandInClear();
  stage.Run();
  EXPECT_EQ(Journal(),
            (Lines{"record e1 s0", "wait s1 e1", "wait s2 e1", "launch a s0", "record e2 s0",
                   "wait s1 e2", "launch b s1", "record e3 s1", "wait s0 e3", "launch c s0",
                   "launch d s2", "record e4 s2", "wait s0 e4", "record e5 s1", "wait s0 e5"}));
}

TEST_F(CudaStageTest, PartsLieInTheWorkspace) {
  std::vector<const void*> seen;
  const auto kernel = ffi::Function::FromPacked([&](ffi::PackedArgs args, ffi::Any*) {
    for (int i = 0; i < args.size(); ++i) {
      const auto tensor = args[i].cast<ffi::TensorView>();
      seen.push_back(tensor.data_ptr());
      EXPECT_EQ(tensor.numel(), i == 0 ? 4 : 2);
    }
  });
  const ffi::Tensor input = DeviceTensor(), workspace = DeviceTensor();  // of 16 bytes
  const Arguments stage({1, 1, 8, 2, 32, 1, 2, 0, 0, 0, 2, 0, 2}, {kernel}, {input, workspace});
  stage.Run();
  const char* data = static_cast<const char*>(workspace.data_ptr());
  EXPECT_EQ(seen, (std::vector<const void*>{input.data_ptr(), data + 8}));
}

TEST_F(CudaStageTest, StreamsAndEventsAreUsedAgain) {
  for (int run = 0; run < 3; ++run) {
    Arguments(Program(5, {{0, 0}, {0, 1}, {0, 2}, {0, 3}, {0, 4}}), {Kernel("a")}).Run();
    TwoChains()->Run();
    if (run == 0) TvmIosStandInClear();
  }
  EXPECT_EQ(Count(Journal(), "create"), 0);
  EXPECT_EQ(Count(Journal(), "destroy"), 0);
}

TEST_F(CudaStageTest, AStageInAStageHasStreamsOfItsOwn) {
  const auto inner = TwoChains();
  const auto run_inner =
      ffi::Function::FromPacked([&](ffi::PackedArgs, ffi::Any*) { inner->Run(); });
  const Arguments outer(Program(2, {{0, 1}, {1, 0}}), {run_inner, Kernel("z")});
  outer.Run();
  TvmIosStandInClear();
  outer.Run();
  EXPECT_EQ(Journal(),
            (Lines{"record e1 s0", "wait s1 e1", "record e2 s1", "wait s2 e2", "launch a s1",
                   "launch b s2", "launch c s1", "launch d s2", "record e3 s2", "wait s1 e3",
                   "launch z s0", "record e4 s1", "wait s0 e4"}));
}

TEST_F(CudaStageTest, AfterAnErrorOfAKernelTheStreamsAreJoined) {
  const Arguments stage(Program(3, {{0, 1}, {0, 2}, {1, 2}, {0, 0}}), {Kernel("a"), Throwing()});
  EXPECT_NE(MessageOf([&] { stage.Run(); }).find("does not like its tensors"), std::string::npos);
  EXPECT_EQ(TVMFFIEnvGetStream(kDLCUDA, 0), nullptr);
  TvmIosStandInClear();
  EXPECT_THROW(stage.Run(), ffi::Error);
  EXPECT_EQ(Journal(),
            (Lines{"record e1 s0", "wait s1 e1", "wait s2 e1", "launch a s1", "launch a s2",
                   "record e2 s2", "wait s0 e2", "record e3 s1", "wait s0 e3"}));
}

TEST_F(CudaStageTest, WhatIsForkedIsJoinedWhenTheRestCannotBe) {
  const Arguments stage(Program(3, {{0, 0}, {0, 1}, {0, 2}}), {Kernel("a")});
  stage.Run();
  {
    const Variable fault("TVM_IOS_FAKE_DRIVER_FAIL", "cuStreamWaitEvent:2:719");
    TvmIosStandInClear();
    EXPECT_THROW(stage.Run(), DeviceError);
  }
  EXPECT_EQ(Journal(), (Lines{"record e1 s0", "wait s1 e1", "fail cuStreamWaitEvent",
                              "record e2 s1", "wait s0 e2"}));
  const Variable fault("TVM_IOS_FAKE_DRIVER_FAIL", "cuEventRecord:2:719");
  TvmIosStandInClear();
  EXPECT_THROW(stage.Run(), DeviceError);
  EXPECT_EQ(Count(Journal(), "wait s0"), 1);  // the other one
}

TEST_F(CudaStageTest, OutOfMemoryIsToldAndWhatWasMadeIsKept) {
  const auto stage = Wide(WidestYet() + 8);
  {
    const Variable fault("TVM_IOS_FAKE_DRIVER_FAIL", "cuStreamCreate:3:2");
    EXPECT_NE(MessageOf([&] { stage->Run(); }).find("out of memory in cuStreamCreate"),
              std::string::npos);
  }
  EXPECT_EQ(Count(Journal(), "launch"), 0);
  EXPECT_EQ(Count(Journal(), "create s"), 2);
  stage->Run();
  EXPECT_EQ(Count(Journal(), "create s"), 8);
}

TEST_F(CudaStageTest, NothingIsLaunchedForAProgramThatIsNone) {
  const std::vector<std::pair<std::vector<int64_t>, std::string>> programs{
      {{}, "is cut off"},
      {{1}, "is cut off"},
      {{1, int64_t{1} << 60}, "parts"},
      {{1, -1}, "-1 parts"},
      {{1, 0}, "fewer calls than streams"},
      {{0, 0, 0, 0, 0, 1, 0}, "at least one stream"},
      {{-1, 0, 0, 0, 0, 1, 0}, "at least one stream"},
      {{1, 0, 0}, "is cut off"},
      {{1, 0, 0, 0}, "is cut off"},
      {{1, 0, 0, 0, 0}, "is cut off"},
      {{1, 0, 0, 0, 0, 1}, "is cut off"},
      {{1, 0, 0, 0, 0, int64_t{1} << 60, 0}, "is cut off"},
      {{1, 0, 0, 0, 0, 1, 0, 0}, "is cut off"},
      {{1, 0, 2, 0, 0, 1, 0}, "names kernel 2 of 2"},
      {{1, 0, -1, 0, 0, 1, 0}, "names kernel -1 of 2"},
      {{1, 0, 0, 1, 0, 1, 0}, "names stream 1 of 1"},
      {{1, 0, 0, 0, -1, 1, 0}, "-1 waits"},
      {{1, 0, 0, 0, 1, 0, 1, 0}, "names earlier call 0 of 0"},
      {{1, 0, 0, 0, 0, 1, 1}, "names tensor 1 of 1"},
      {{1, 0, 0, 0, 0, 0}, "calls kernel 0 with 0 tensors"},
      {{int64_t{1} << 60, 0, 0, 0, 0, 1, 0}, "fewer calls than streams"},
      {{2, 0, 0, 0, 0, 1, 0, 1, 0, 0, 1, 0}, "calls nothing on stream 1"},
      {{1, 1, 0, 2, 0, 1, 4, 0, 0, 0, 1, 1}, "bits of a kernel's tensor"},
      {{1, 1, 4, 2, 32, 1, 4, 0, 0, 0, 1, 1}, "not within a workspace"},
      {{1, 1, 0, 2, 32, 1, 4, 0, 0, 0, 1, 2}, "names tensor 2 of 2"},
  };
  for (const auto& [program, message] : programs) {
    const Arguments arguments(program, {Kernel("a"), Kernel("b")});
    EXPECT_NE(MessageOf([&] { arguments.Run(); }).find(message), std::string::npos) << message;
  }
  EXPECT_EQ(Journal(), Lines{});
}

TEST_F(CudaStageTest, NothingIsLaunchedForOtherArguments) {
  const std::vector<int64_t> program = Program(1, {{0, 0}});
  const Arguments no_tensor(program, {Kernel("a")}, {});
  EXPECT_NE(MessageOf([&] { no_tensor.Run(); }).find("at least one tensor"), std::string::npos);
  const ffi::Tensor host = MakeTensor(std::vector<int32_t>{1}, {1}, kInt32);
  const Arguments on_host(program, {Kernel("a")}, {DeviceTensor(), host});
  EXPECT_NE(MessageOf([&] { on_host.Run(); }).find("tensor 1"), std::string::npos);
  const Arguments mixed(program, {Kernel("a")}, {DeviceTensor(0), DeviceTensor(1)});
  EXPECT_NE(MessageOf([&] { mixed.Run(); }).find("is on device 1"), std::string::npos);
  const ffi::Shape shape(program.begin(), program.end());
  const ffi::Function kernel = Kernel("a");
  for (const std::vector<ffi::AnyView>& views :
       std::vector<std::vector<ffi::AnyView>>{{}, {kernel}, {shape, 3}, {shape, kernel, 3}}) {
    const ffi::PackedArgs args(views.data(), static_cast<int32_t>(views.size()));
    EXPECT_THROW(Stage{args}, ffi::Error);
  }
  EXPECT_EQ(Journal(), Lines{});
}

TEST_F(CudaStageTest, EachDeviceHasStreamsOfItsOwn) {
  for (int device_id : {0, 1, 0, 1}) TwoChains(device_id)->Run();
  EXPECT_THROW(TwoChains(2)->Run(), DeviceError);
  const Arguments stages(Program(1, {{0, 0}}), {Kernel("a")}, {DeviceTensor(1)});
  EXPECT_EQ(stages.stage().device_id(), 1);
}

}  // namespace
}  // namespace cuda
}  // namespace tvm_ios
