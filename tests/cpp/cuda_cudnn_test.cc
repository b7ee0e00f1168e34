// SPDX-License-Identifier: Apache-2.0
#include <tvm/ffi/error.h>

#include <functional>
#include <numeric>
#include <thread>

#include "cuda_support.h"
#include "runtime/cuda/cudnn.h"
#include "runtime/cuda/cudnn_convolution.h"
#include "runtime/cuda/cudnn_handles.h"
#include "runtime/cuda/cudnn_problem.h"
#include "runtime/cuda/handles.h"
#include "support/error.h"

namespace tvm_ios {
namespace cuda {
namespace {

constexpr DLDataType kFloat32{kDLFloat, 32, 1};
constexpr DLDataType kUInt8{kDLUInt, 8, 1};

std::string MessageOf(const std::function<void()>& call) {
  try {
    call();
  } catch (const std::exception& error) {
    return error.what();
  }
  return "nothing was thrown";
}

ffi::Tensor OnDevice(const std::vector<int64_t>& shape, DLDataType dtype, int device_id = 0) {
  return ffi::Tensor::FromNDAlloc(HostAllocator(), ffi::ShapeView(shape.data(), shape.size()),
                                  dtype, DLDevice{kDLCUDA, device_id});
}

ffi::Tensor Counting(const std::vector<int64_t>& shape, int device_id) {
  ffi::Tensor tensor = OnDevice(shape, kFloat32, device_id);
  auto* data = static_cast<float*>(tensor.data_ptr());
  std::iota(data, data + tensor.numel(), 1.0F);
  return tensor;
}

/*! \brief A row of three pixels, NHWC, and a kernel of two; by FMA unless told otherwise. */
std::vector<int64_t> Row(int64_t epilogue = 0, int64_t precision = 0) {
  return {precision, 1, epilogue, 0, 1, 1, 1, 1, 1, 3, 1, 2, 0, 0, 1, 1, 1, 1};
}

/*! \brief The tensors of Row, and its arguments. */
class RowCall {
 public:
  explicit RowCall(int64_t algorithm = 0, int64_t epilogue = 0, int device_id = 0)
      : tensors_{Counting({1, 1, 3, 1}, device_id), Counting({1, 1, 2, 1}, device_id)} {
    if (epilogue > 0) tensors_.push_back(Counting({1}, device_id));
    tensors_.push_back(Counting({1, 1, 2, 1}, device_id));
    numbers_ = Row(epilogue);
    numbers_.insert(numbers_.begin(), algorithm);
  }
  RowCall& With(const ffi::Tensor& tensor) {
    tensors_.push_back(tensor);
    return *this;
  }
  RowCall& Set(size_t index, const ffi::Tensor& tensor) {
    tensors_[index] = tensor;
    return *this;
  }
  void Run() const {
    std::vector<ffi::AnyView> views;
    for (const ffi::Tensor& tensor : tensors_) views.emplace_back(tensor);
    for (int64_t number : numbers_) views.emplace_back(number);
    RunConvolution(ffi::PackedArgs(views.data(), static_cast<int32_t>(views.size())));
  }
  std::vector<float> result(size_t index = 2) const {
    const auto* data = static_cast<const float*>(tensors_[index].data_ptr());
    return {data, data + 2};
  }

 private:
  std::vector<ffi::Tensor> tensors_;
  std::vector<int64_t> numbers_;
};

class CudnnTest : public CudaTest {
 protected:
  static void SetUpTestSuite() { Cudnn::Use(TVM_IOS_FAKE_CUDNN); }
};

std::string Refusal(const std::string& library) {
  return MessageOf([&] { const Cudnn cudnn(library); });
}

std::vector<int64_t> AlgorithmsOf(const std::vector<int64_t>& numbers, int64_t device_id = 0) {
  std::vector<int64_t> found;
  for (const auto& [algorithm, workspace] :
       FindAlgorithms(device_id, ffi::ShapeView(numbers.data(), numbers.size()))) {
    found.insert(found.end(), {algorithm, workspace});
  }
  return found;
}

TEST_F(CudnnTest, ItsVersionIsTold) { EXPECT_EQ(Cudnn::Get().version(), "9.28.0"); }

TEST_F(CudnnTest, WithoutCudnn) {
  const std::string refusal = Refusal("libno-cudnn-here.so.9");
  EXPECT_EQ(refusal.rfind("cuDNN cannot be loaded (", 0), 0) << refusal;
  EXPECT_NE(refusal.find("pip install nvidia-cudnn-cu13"), std::string::npos) << refusal;
}

TEST_F(CudnnTest, ALibraryThatIsNotCudnn) {
  EXPECT_NE(Refusal("libc.so.6").find("has no cudnnGetVersion"), std::string::npos);
}

TEST_F(CudnnTest, OneThatIsTooOld) {
  const Variable old("TVM_IOS_FAKE_CUDNN_VERSION", "8907");
  EXPECT_EQ(Refusal(TVM_IOS_FAKE_CUDNN),
            "cuDNN 8.9.7 is too old: install version 9 with: pip install nvidia-cudnn-cu13");
}

TEST_F(CudnnTest, AConvolutionIsComputed) {
  const RowCall call;
  call.Run();
  EXPECT_EQ(call.result(), (std::vector<float>{1 + 4, 2 + 6}));
  EXPECT_EQ(Journal().back(), "launch cudnn0_fma s0");
}

TEST_F(CudnnTest, ABiasIsAdded) {
  RowCall call(1, 1);
  call.With(OnDevice({8}, kUInt8)).Run();
  EXPECT_EQ(call.result(3), (std::vector<float>{5 + 1, 8 + 1}));
}

TEST_F(CudnnTest, AlgorithmsThatMayNotBeUsedAreNotListed) {
  EXPECT_EQ(AlgorithmsOf(Row()), (std::vector<int64_t>{1, 8, 0, 0}));
  std::vector<int64_t> channels_first = Row();
  channels_first[1] = 0;
  EXPECT_EQ(AlgorithmsOf(channels_first), (std::vector<int64_t>{1, 8, 2, 32, 0, 0}));
  EXPECT_EQ(AlgorithmsOf(Row(1)), (std::vector<int64_t>{1, 8}));
  EXPECT_EQ(AlgorithmsOf(Row(2)), (std::vector<int64_t>{1, 8, 0, 0}));
  EXPECT_EQ(Count(Journal(), "launch"), 0);
}

TEST_F(CudnnTest, AlgorithmsOfADeviceThatIsNotThere) {
  EXPECT_NE(MessageOf([] { AlgorithmsOf(Row(), 7); }).find("no CUDA device 7"), std::string::npos);
}

TEST_F(CudnnTest, NumbersThatAreNoConvolution) {
  const std::vector<std::tuple<size_t, int64_t, std::string>> wrong{
      {0, 4, "precision"},
      {1, 2, "layout"},
      {2, 3, "epilogue"},
      {3, 1, "needs a bias"},
      {4, 0, "batch"},
      {7, 2, "2 groups"},
      {9, -1, "image"},
      {11, 4, "larger than its"},
      {12, -1, "padding"},
      {14, 0, "stride"},
      {16, int64_t{1} << 31, "dilation"},
  };
  for (const auto& [index, number, message] : wrong) {
    std::vector<int64_t> numbers = Row();
    numbers[index] = number;
    EXPECT_NE(MessageOf([&] { AlgorithmsOf(numbers); }).find(message), std::string::npos)
        << message;
  }
  EXPECT_NE(MessageOf([] { AlgorithmsOf({1, 2}); }).find("18 numbers"), std::string::npos);
  EXPECT_EQ(Journal(), Lines{});
}

TEST_F(CudnnTest, ArgumentsThatDoNotFit) {
  const auto message = [](const RowCall& call) { return MessageOf([&] { call.Run(); }); };
  EXPECT_NE(message(RowCall(8)).find("an algorithm from 0 to 7"), std::string::npos);
  EXPECT_NE(message(RowCall().Set(1, OnDevice({1, 1, 1, 1}, kFloat32))).find("tensor 1"),
            std::string::npos);
  EXPECT_NE(message(RowCall().Set(2, OnDevice({1, 1, 2, 1}, kInt32))).find("tensor 2"),
            std::string::npos);
  EXPECT_NE(message(RowCall().Set(1, OnDevice({1, 1, 2, 1}, kFloat32, 1))).find("tensor 1"),
            std::string::npos);
  EXPECT_NE(message(RowCall().With(OnDevice({8}, kFloat32))).find("tensor 3"), std::string::npos);
  const ffi::Tensor bytes = OnDevice({8}, kUInt8);
  EXPECT_NE(message(RowCall().With(bytes).With(bytes)).find("takes 3 tensors"), std::string::npos);
  EXPECT_EQ(Count(Journal(), "launch"), 0);
}

TEST_F(CudnnTest, AnAlgorithmThatTheProblemHasNot) {
  const std::string message = MessageOf([] { RowCall(6).Run(); });
  EXPECT_EQ(message.rfind("cuDNN cannot compute this convolution on this device, ", 0), 0)
      << message;
}

TEST_F(CudnnTest, AWorkspaceThatIsTooSmall) {
  EXPECT_NE(MessageOf([] { RowCall(1).Run(); }).find("a workspace that is too small"),
            std::string::npos);
  misused_ = true;
}

TEST_F(CudnnTest, EachStreamHasAHandleOfItsOwn) {
  const ContextScope context(0);
  const StreamHandle first = MakeStream(), second = MakeStream();
  StreamScope current(0);
  for (int run = 0; run < 2; ++run) {
    TvmIosStandInClear();
    for (const StreamHandle* stream : {&first, &second}) {
      current.Set(stream->get());
      RowCall().Run();
    }
    EXPECT_EQ(Count(Journal(), "launch cudnn0_fma s1"), 1);
    EXPECT_EQ(Count(Journal(), "launch cudnn0_fma s2"), 1);
  }
  EXPECT_EQ(Count(Journal(), "allocate"), 0);
  EXPECT_NE(HandleFor(0, first.get()), HandleFor(0, second.get()));
  EXPECT_EQ(HandleFor(0, first.get()), HandleFor(0, first.get()));
  for (const StreamHandle* stream : {&first, &second}) {
    Driver::Get().cuStreamSynchronize(stream->get());
  }
}

/*! \brief Captures a convolution on a stream of its own. */
void CaptureARow() {
  const ContextScope context(0);
  const StreamHandle stream = MakeStream();
  StreamScope current(0);
  current.Set(stream.get());
  Driver::Get().cuStreamBeginCapture(stream.get(), kCaptureThreadLocal);
  const std::string message = MessageOf([] { RowCall().Run(); });
  Graph graph = nullptr;
  Driver::Get().cuStreamEndCapture(stream.get(), &graph);
  const GraphHandle owned(graph);
  if (message != "nothing was thrown") throw std::runtime_error(message);
}

TEST_F(CudnnTest, ACaptureHoldsTheConvolutionAndMakesNothing) {
  RowCall().Run();
  TvmIosStandInClear();
  CaptureARow();
  EXPECT_EQ(Journal(), (Lines{"create s1", "begin s1", "launch cudnn0_fma s1", "end s1 g1",
                              "destroy g1", "destroy s1"}));
}

TEST_F(CudnnTest, WhatThreadsLeaveBehindIsUsedAgain) {
  const auto in_a_thread = [](const std::function<void()>& call) { std::thread(call).join(); };
  in_a_thread([] { RowCall(0, 0, 1).Run(); });
  TvmIosStandInClear();
  in_a_thread([] { RowCall(0, 0, 1).Run(); });
  EXPECT_EQ(Journal(), (Lines{"launch cudnn0_fma s0"}));
}

TEST_F(CudnnTest, ThreadsComputeAtTheSameTime) {
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([] {
      const ffi::Tensor workspace = OnDevice({8}, kUInt8);
      for (int run = 0; run < 100; ++run) {
        RowCall call(1);
        call.With(workspace).Run();
        EXPECT_EQ(call.result(), (std::vector<float>{5, 8}));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(Count(Journal(), "launch cudnn1_fma"), 400);
}

/*! \brief Calls in a new thread, after others have used up what threads left behind. */
void WithoutSpareHandles(const std::function<void()>& call) {
  constexpr int kMany = 8;
  std::thread([&] {
    const ContextScope context(0);
    std::vector<StreamHandle> streams;
    TvmIosStandInClear();
    while (streams.size() < kMany) {
      streams.push_back(MakeStream());
      HandleFor(0, streams.back().get());
    }
    const bool used_up = Count(Journal(), "allocate") > 0;
    used_up ? std::thread(call).join() : WithoutSpareHandles(call);
  }).join();
}

TEST_F(CudnnTest, WithoutMemoryForAHandle) {
  WithoutSpareHandles([] {
    const Variable fault("TVM_IOS_FAKE_DRIVER_FAIL", "cuMemAlloc:1:2");
    TvmIosStandInClear();
    EXPECT_NE(MessageOf([] { RowCall().Run(); }).find("out of memory in cudnnCreate"),
              std::string::npos);
  });
}

TEST_F(CudnnTest, ACaptureWithoutAHandleIsRefused) {
  WithoutSpareHandles([] {
    EXPECT_NE(MessageOf(CaptureARow).find("on a thread that has not used it before"),
              std::string::npos);
  });
}

TEST_F(CudnnTest, AHandleIsMadeWhileAnotherThreadCaptures) {
  constexpr int kCaptureGlobal = 0;
  WithoutSpareHandles([] {
    const ContextScope context(0);
    const StreamHandle stream = MakeStream();
    Driver::Get().cuStreamBeginCapture(stream.get(), kCaptureGlobal);
    TvmIosStandInClear();
    std::thread([] { RowCall().Run(); }).join();
    Graph graph = nullptr;
    Driver::Get().cuStreamEndCapture(stream.get(), &graph);
    const GraphHandle owned(graph);
    EXPECT_EQ(Count(Journal(), "allocate"), 1);
    EXPECT_EQ(Count(Journal(), "launch cudnn0_fma s0"), 1);
  });
}

}  // namespace
}  // namespace cuda
}  // namespace tvm_ios
