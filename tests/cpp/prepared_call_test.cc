// SPDX-License-Identifier: Apache-2.0
#include "runtime/prepared_call.h"

#include <gtest/gtest.h>
#include <tvm/ffi/container/array.h>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/error.h>
#include <tvm/ffi/function.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "runtime/arguments.h"

namespace tvm_ios {
namespace {

namespace ffi = ::tvm::ffi;

constexpr DLDataType kFloat32{kDLFloat, 32, 1};
constexpr int64_t kRows = 3, kColumns = 5, kElements = kRows * kColumns;

/*! \brief Memory of the caller's, as a tensor that may have any strides. */
class Array {
 public:
  explicit Array(std::vector<int64_t> shape = {kRows, kColumns}, size_t offset = 0)
      : shape_(std::move(shape)), memory_(AllocateAligned(1024)) {
    strides_.resize(shape_.size());
    int64_t stride = 1;
    for (size_t i = shape_.size(); i-- > 0;) {
      strides_[i] = stride;
      stride *= std::max(shape_[i], int64_t{1});
    }
    tensor_ = {memory_.get() + offset,
               {kDLCPU, 0},
               static_cast<int32_t>(shape_.size()),
               kFloat32,
               shape_.data(),
               strides_.data(),
               0};
    std::iota(data(), data() + 2 * kElements, 1.0f);
  }

  float* data() { return reinterpret_cast<float*>(DataOf(tensor_)); }
  DLTensor* tensor() { return &tensor_; }
  std::vector<int64_t>& strides() { return strides_; }

  /*! \brief A tensor that may be kept; its memory is this array's. */
  ffi::Tensor Owned() {
    struct Borrow {
      void AllocData(DLTensor* /*tensor*/) {}
      void FreeData(DLTensor* /*tensor*/) {}
    };
    ffi::Tensor tensor = ffi::Tensor::FromNDAlloc(
        Borrow(), ffi::ShapeView(shape_.data(), shape_.size()), kFloat32, {kDLCPU, 0});
    const_cast<DLTensor*>(tensor.GetDLTensorPtr())->data = DataOf(tensor_);
    return tensor;
  }

 private:
  std::vector<int64_t> shape_;
  std::vector<int64_t> strides_;
  AlignedBytes memory_;
  DLTensor tensor_;
};

/*! \brief output = 2 * input, by way of a workspace; throws if the first number is negative. */
ffi::Function Doubling() {
  return ffi::Function::FromTyped([](DLTensor* input, DLTensor* output, DLTensor* workspace) {
    for (const DLTensor* tensor : {input, output, workspace}) {
      TVM_IOS_REQUIRE(IsAligned(tensor->data) && ffi::IsContiguous(*tensor), RuntimeError)
          << "the driver cannot use a tensor";
    }
    const float* from = static_cast<const float*>(input->data);
    float* between = static_cast<float*>(workspace->data);
    float* to = static_cast<float*>(output->data);
    TVM_IOS_REQUIRE(from[0] >= 0, RuntimeError) << "the driver fails";
    for (int64_t i = 0; i < kElements; ++i) between[i] = 2 * from[i];
    std::this_thread::yield();
    std::copy(between, between + kElements, to);
  });
}

CallPlan DoublingPlan() {
  using Kind = DriverParameter::Kind;
  const std::vector<int64_t> shape{kRows, kColumns};
  const int64_t bytes = kElements * sizeof(float);
  const ffi::ShapeView view(shape.data(), shape.size());
  return {Doubling(),
          {TensorSpec("x float32[3, 5]", kFloat32, view)},
          {TensorSpec("y float32[3, 5]", kFloat32, view)},
          {TensorSpec("a workspace", {kDLUInt, 8, 1}, ffi::ShapeView(&bytes, 1))},
          {{Kind::kInput, 0}, {Kind::kOutput, 0}, {Kind::kWorkspace, 0}}};
}

template <typename... Arguments>
struct Packed {
  explicit Packed(Arguments... arguments) : views{ffi::AnyView(arguments)...} {}
  ffi::PackedArgs get() { return ffi::PackedArgs(views, sizeof...(Arguments)); }
  ffi::AnyView views[sizeof...(Arguments)];
};

/*! \brief The message of the error that a call throws. */
template <typename Call>
std::string ErrorOf(const Call& call) {
  try {
    call();
  } catch (const ffi::Error& error) {
    return error.kind() + ": " + error.message();
  }
  return "";
}

std::vector<float> Values(const ffi::Tensor& tensor) {
  const float* data = static_cast<const float*>(tensor.data_ptr());
  return std::vector<float>(data, data + kElements);
}

std::vector<float> Doubled(float first) {
  std::vector<float> values(kElements);
  for (int64_t i = 0; i < kElements; ++i) values[i] = 2 * (first + static_cast<float>(i));
  return values;
}

class PreparedCallTest : public testing::Test {
 protected:
  std::vector<float> Run(DLTensor* input) const {
    return Values(call_.Run(Packed(input).get()).cast<ffi::Tensor>());
  }

  void Into(DLTensor* input, DLTensor* output) const { call_.RunInto(Packed(input, output).get()); }

  const PreparedCall call_{DoublingPlan()};
};

TEST_F(PreparedCallTest, ReadsTensorsOfAnyPlaceAndStrides) {
  Array aligned, odd({kRows, kColumns}, sizeof(float));
  EXPECT_EQ(Run(aligned.tensor()), Doubled(1));
  EXPECT_EQ(Run(odd.tensor()), Doubled(1));
  aligned.tensor()->byte_offset = sizeof(float);
  EXPECT_EQ(Run(aligned.tensor()), Doubled(2));
  aligned.tensor()->strides = nullptr;  // which is contiguous, too
  EXPECT_EQ(Run(aligned.tensor()), Doubled(2));

  Array transposed;
  transposed.strides() = {1, kRows};
  const std::vector<float> columns = Run(transposed.tensor());
  for (int64_t i = 0; i < kElements; ++i) {
    EXPECT_EQ(columns[i], 2.0f * static_cast<float>(1 + i / kColumns + i % kColumns * kRows));
  }
  Array backward;
  backward.tensor()->data = backward.data() + kElements - 1;
  backward.strides() = {-kColumns, -1};
  std::vector<float> reversed = Doubled(1);
  std::reverse(reversed.begin(), reversed.end());
  EXPECT_EQ(Run(backward.tensor()), reversed);
  EXPECT_EQ(Run(Array().tensor()), Doubled(1)) << "a copy of an earlier input is not used";
}

TEST_F(PreparedCallTest, OutputsAreNewMemory) {
  Array one, other;
  other.data()[0] = 7;
  const ffi::Tensor first = call_.Run(Packed(one.tensor()).get()).cast<ffi::Tensor>();
  const ffi::Tensor second = call_.Run(Packed(other.tensor()).get()).cast<ffi::Tensor>();
  EXPECT_NE(first.data_ptr(), second.data_ptr());
  EXPECT_EQ(Values(first), Doubled(1));
  EXPECT_EQ(Values(second)[0], 14);
}

TEST_F(PreparedCallTest, WritesGivenOutputs) {
  Array input, output, odd({kRows, kColumns}, sizeof(float));
  for (Array* array : {&output, &odd}) {
    Into(input.tensor(), array->tensor());
    EXPECT_EQ(std::vector<float>(array->data(), array->data() + kElements), Doubled(1));
    EXPECT_EQ(array->data()[kElements], kElements + 1) << "nothing behind it is written";
  }
}

TEST_F(PreparedCallTest, RefusesWhatItDoesNotTake) {
  Array input, flat({kElements}), wide({kRows, kColumns + 1}), output;
  EXPECT_EQ(ErrorOf([&] { Run(flat.tensor()); }),
            "ValueError: The model takes x float32[3, 5]; got float32[15].");
  EXPECT_EQ(ErrorOf([&] { Run(wide.tensor()); }),
            "ValueError: The model takes x float32[3, 5]; got float32[3, 6].");
  input.tensor()->dtype = kInt32;
  EXPECT_EQ(ErrorOf([&] { Run(input.tensor()); }),
            "ValueError: The model takes x float32[3, 5]; got int32[3, 5].");
  input.tensor()->dtype = kFloat32;
  input.tensor()->device.device_type = kDLCUDA;
  EXPECT_EQ(ErrorOf([&] { Run(input.tensor()); }),
            "ValueError: The model runs on the CPU; move its inputs there.");
  input.tensor()->device.device_type = kDLCPU;
  EXPECT_EQ(ErrorOf([&] { call_.Run(Packed(1).get()); }),
            "ValueError: The model takes x float32[3, 5]; got no array.");
  EXPECT_EQ(ErrorOf([&] { call_.Run(Packed(input.tensor(), output.tensor()).get()); }),
            "ValueError: The model takes x float32[3, 5]; got 2 arrays.");
  EXPECT_EQ(ErrorOf([&] { call_.RunInto(Packed(input.tensor()).get()); }),
            "ValueError: The model returns y float32[3, 5]; got 0 arrays.");
  EXPECT_EQ(ErrorOf([&] { Into(input.tensor(), flat.tensor()); }),
            "ValueError: The model returns y float32[3, 5]; got float32[15].");
  output.strides() = {1, kRows};
  EXPECT_EQ(ErrorOf([&] { Into(input.tensor(), output.tensor()); }),
            "ValueError: The array for y float32[3, 5] is not contiguous; give one that is.");
}

TEST_F(PreparedCallTest, RefusesAnOutputThatOverlapsAnInput) {
  Array input, output;
  for (const int64_t behind : {0, 1, int(kElements) - 1}) {
    output.tensor()->data = input.data() + behind;
    EXPECT_NE(ErrorOf([&] { Into(input.tensor(), output.tensor()); }).find("overlaps an input"),
              std::string::npos);
  }
  EXPECT_EQ(input.data()[kElements - 1], kElements) << "it was not written";
  output.tensor()->data = input.data() + kElements;
  Into(input.tensor(), output.tensor());
  EXPECT_EQ(std::vector<float>(output.data(), output.data() + kElements), Doubled(1));
  // One that lies between the rows of an input, which begins behind its first element in memory.
  input.tensor()->data = input.data() + 2 * kElements - kColumns;
  input.strides() = {-2 * kColumns, 1};
  output.tensor()->data = input.data() - 2 * kColumns;
  EXPECT_NE(ErrorOf([&] { Into(input.tensor(), output.tensor()); }).find("overlaps an input"),
            std::string::npos);
}

TEST_F(PreparedCallTest, AFailedRunLeavesItUsable) {
  Array input, failing;
  failing.data()[0] = -1;
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(ErrorOf([&] { Run(failing.tensor()); }), "RuntimeError: the driver fails");
    EXPECT_EQ(Run(input.tensor()), Doubled(1));
  }
}

TEST_F(PreparedCallTest, ThreadsCallOneAtTheSameTime) {
  constexpr int kThreads = 8, kRuns = 200;
  std::atomic<int> right{0};
  std::vector<std::thread> threads;
  for (int number = 0; number < kThreads; ++number) {
    threads.emplace_back([&, number] {
      Array input({kRows, kColumns}, number % 2 * sizeof(float));
      std::iota(input.data(), input.data() + kElements, static_cast<float>(100 * number));
      for (int i = 0; i < kRuns; ++i) {
        right += Run(input.tensor()) == Doubled(static_cast<float>(100 * number));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(right, kThreads * kRuns);
}

TEST_F(PreparedCallTest, ABoundCallReadsAndWritesTheSameMemory) {
  for (const size_t offset : {size_t{0}, sizeof(float)}) {
    Array input({kRows, kColumns}, offset), output({kRows, kColumns}, offset);
    BoundCall bound(call_.plan(), Packed(input.Owned(), output.Owned()).get());
    for (int i = 0; i < 100; ++i) {
      std::iota(input.data(), input.data() + kElements, static_cast<float>(i));
      bound.Run();
      ASSERT_EQ(std::vector<float>(output.data(), output.data() + kElements),
                Doubled(static_cast<float>(i)));
    }
    input.data()[0] = -1;
    EXPECT_EQ(ErrorOf([&] { bound.Run(); }), "RuntimeError: the driver fails");
    input.data()[0] = 0;
    bound.Run();
    EXPECT_EQ(output.data()[0], 0);
  }
  Array input;
  EXPECT_NE(ErrorOf([&] {
              BoundCall(call_.plan(), Packed(input.Owned(), input.Owned()).get());
            }).find("overlaps an input"),
            std::string::npos);
}

TEST(BoundCallTest, RunsInOneThreadAtATime) {
  Array input, output;
  BoundCall* itself = nullptr;
  std::string inside;
  CallPlan plan = DoublingPlan();
  plan.driver = ffi::Function::FromTyped([&](DLTensor*, DLTensor*, DLTensor*) {
    std::thread([&] { inside = ErrorOf([&] { itself->Run(); }); }).join();
  });
  BoundCall bound(plan, Packed(input.Owned(), output.Owned()).get());
  itself = &bound;
  bound.Run();
  EXPECT_EQ(inside, "RuntimeError: Another thread runs this bound call; bind one for each thread.");
}

TEST(CallPlanTest, EachOutputIsOneParameter) {
  using Kind = DriverParameter::Kind;
  const std::vector<std::vector<DriverParameter>> wrong{
      {{Kind::kInput, 0}},
      {{Kind::kOutput, 0}, {Kind::kOutput, 0}},
      {{Kind::kInput, 1}, {Kind::kOutput, 0}},
      {{Kind::kOutput, 0}, {Kind::kWorkspace, 1}},
  };
  for (const std::vector<DriverParameter>& parameters : wrong) {
    CallPlan plan = DoublingPlan();
    plan.parameters = parameters;
    EXPECT_NE(ErrorOf([&] { PreparedCall call(plan); }), "");
  }
}

TEST(PreparedCallOfNumbers, ADriverIsPassedThem) {
  const auto adding = ffi::Function::FromTyped([](int64_t first, DLTensor* output, int64_t second) {
    static_cast<float*>(output->data)[0] = static_cast<float>(10 * first + second);
  });
  const int64_t one = 1;
  const TensorSpec output("y", kFloat32, ffi::ShapeView(&one, 1));
  using Kind = DriverParameter::Kind;
  const PreparedCall call(
      {adding, {}, {output}, {}, {{Kind::kNumber, 4}, {Kind::kOutput, 0}, {Kind::kNumber, 2}}});
  const auto result = call.Run(ffi::PackedArgs(nullptr, 0)).cast<ffi::Tensor>();
  EXPECT_EQ(static_cast<const float*>(result.data_ptr())[0], 42.0f);
}

TEST(PreparedCallOfNothing, TensorsWithoutElements) {
  const std::vector<int64_t> shape{2, 0};
  const TensorSpec spec("e float32[2, 0]", kFloat32, ffi::ShapeView(shape.data(), 2));
  const ffi::Function driver = ffi::Function::FromTyped([](DLTensor* input, DLTensor* output) {
    TVM_IOS_REQUIRE(input->data != nullptr && output->data != nullptr, RuntimeError) << "null";
  });
  const PreparedCall call(
      {driver,
       {spec},
       {spec},
       {},
       {{DriverParameter::Kind::kInput, 0}, {DriverParameter::Kind::kOutput, 0}}});
  Array empty(shape);
  empty.tensor()->data = nullptr;
  empty.strides() = {7, 7};
  EXPECT_EQ(call.Run(Packed(empty.tensor()).get()).cast<ffi::Tensor>().numel(), 0);
  call.RunInto(Packed(empty.tensor(), empty.tensor()).get());  // which share nothing
}

}  // namespace
}  // namespace tvm_ios
