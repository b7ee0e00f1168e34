// SPDX-License-Identifier: Apache-2.0
#include "runtime/cuda/cudnn_problem.h"

#include <tvm/ffi/error.h>

#include <limits>

#include "runtime/arguments.h"

namespace tvm_ios {
namespace cuda {

namespace ffi = ::tvm::ffi;

namespace {

/*! \brief A reader of numbers, one after the other. */
class Numbers {
 public:
  explicit Numbers(ffi::ShapeView numbers) : numbers_(numbers) {
    TVM_IOS_REQUIRE(numbers.size() == kNumbersOfProblem, ValueError)
        << "a convolution is " << kNumbersOfProblem << " numbers, not " << numbers.size();
  }

  int Next(const char* what, int least, int most = std::numeric_limits<int>::max()) {
    const int64_t number = numbers_[next_++];
    TVM_IOS_REQUIRE(number >= least && number <= most, ValueError)
        << "the " << what << " of a convolution cannot be " << number;
    return static_cast<int>(number);
  }
  Extent NextExtent(const char* what, int least) {
    const int rows = Next(what, least);
    return {rows, Next(what, least)};
  }

 private:
  ffi::ShapeView numbers_;
  size_t next_{0};
};

/*!
 * \brief Return the rows or columns of the result, 0 if there are none or more than an int holds.
 */
int ResultSize(int image, int kernel, int padding, int stride, int dilation) {
  const int64_t window = int64_t{dilation} * (kernel - 1) + 1;
  const int64_t room = image + 2 * int64_t{padding} - window;
  const int64_t size = room < 0 ? 0 : room / stride + 1;
  return size > std::numeric_limits<int>::max() ? 0 : static_cast<int>(size);
}

void Check(const ConvolutionProblem& problem) {
  TVM_IOS_REQUIRE(!problem.residual || problem.has_bias(), ValueError)
      << "a convolution that something is added to needs a bias: give it one of zeros";
  TVM_IOS_REQUIRE(
      problem.in_channels % problem.groups == 0 && problem.out_channels % problem.groups == 0,
      ValueError)
      << problem.groups << " groups of a convolution do not divide its channels";
  const Extent result = problem.result();
  TVM_IOS_REQUIRE(result.rows > 0 && result.columns > 0, ValueError)
      << "the kernel of a convolution is larger than its padded image, or the result too large";
  for (const std::vector<int64_t>& shape : problem.Shapes()) {
    CheckedBytes(ffi::ShapeView(shape.data(), shape.size()), problem.dtype(),
                 "a tensor of a convolution");
  }
}

}  // namespace

Extent ConvolutionProblem::result() const {
  return {
      ResultSize(image.rows, kernel.rows, padding.rows, stride.rows, dilation.rows),
      ResultSize(image.columns, kernel.columns, padding.columns, stride.columns, dilation.columns)};
}

DLDataType ConvolutionProblem::dtype() const {
  switch (precision) {
    case Precision::kFloat16:
      return {kDLFloat, 16, 1};
    case Precision::kBfloat16:
      return {kDLBfloat, 16, 1};
    default:
      return {kDLFloat, 32, 1};
  }
}

std::vector<std::vector<int64_t>> ConvolutionProblem::Shapes() const {
  const auto shape = [&](int outer, int channels, Extent extent) -> std::vector<int64_t> {
    if (layout == TensorLayout::kChannelsLast) {
      return {outer, extent.rows, extent.columns, channels};
    }
    return {outer, channels, extent.rows, extent.columns};
  };
  const std::vector<int64_t> y = shape(batch, out_channels, result());
  std::vector<std::vector<int64_t>> shapes{shape(batch, in_channels, image),
                                           shape(out_channels, in_channels / groups, kernel)};
  if (has_bias()) shapes.push_back({out_channels});
  if (residual) shapes.push_back(y);
  shapes.push_back(y);
  return shapes;
}

ConvolutionProblem ReadConvolution(ffi::ShapeView numbers) {
  Numbers read(numbers);
  ConvolutionProblem problem{};
  problem.precision = static_cast<Precision>(read.Next("precision", 0, 3));
  problem.layout = static_cast<TensorLayout>(read.Next("layout", 0, 1));
  problem.epilogue = static_cast<Epilogue>(read.Next("epilogue", 0, 2));
  problem.residual = read.Next("residual", 0, 1) == 1;
  problem.batch = read.Next("batch", 1);
  problem.in_channels = read.Next("channels", 1);
  problem.out_channels = read.Next("channels", 1);
  problem.groups = read.Next("groups", 1);
  problem.image = read.NextExtent("image's size", 1);
  problem.kernel = read.NextExtent("kernel's size", 1);
  problem.padding = read.NextExtent("padding", 0);
  problem.stride = read.NextExtent("stride", 1);
  problem.dilation = read.NextExtent("dilation", 1);
  Check(problem);
  return problem;
}

}  // namespace cuda
}  // namespace tvm_ios
