// SPDX-License-Identifier: Apache-2.0
/*!
 * \file cudnn_problem.h
 * \brief Which convolution cuDNN is to compute, from the numbers that a caller gives.
 */
#ifndef TVM_IOS_RUNTIME_CUDA_CUDNN_PROBLEM_H_
#define TVM_IOS_RUNTIME_CUDA_CUDNN_PROBLEM_H_

#include <tvm/ffi/container/shape.h>
#include <tvm/ffi/container/tensor.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tvm_ios {
namespace cuda {

/*! \brief The type of all tensors, and what is multiplied; sums are of float32. */
enum class Precision : int {
  kFloat32 = 0,  // multiplied as it is
  kTf32 = 1,     // float32 in memory, rounded to TF32 before it is multiplied
  kFloat16 = 2,
  kBfloat16 = 3,
};

enum class TensorLayout : int {
  kChannelsFirst = 0,  // NCHW, weights OIHW
  kChannelsLast = 1,   // NHWC, weights OHWI
};

/*! \brief What follows the convolution. */
enum class Epilogue : int { kNothing = 0, kBias = 1, kBiasRelu = 2 };

/*! \brief A size of rows and one of columns. */
struct Extent {
  int rows;
  int columns;
};

/*! \brief y = relu(x convolved with w + bias + z), with or without relu, bias and z. */
struct ConvolutionProblem {
  Precision precision;
  TensorLayout layout;
  Epilogue epilogue;
  bool residual;  // whether there is a z; then there is a bias, too
  int batch;
  int in_channels;
  int out_channels;
  int groups;
  Extent image;
  Extent kernel;
  Extent padding;  // before the first and after the last row or column alike
  Extent stride;
  Extent dilation;

  Extent result() const;
  bool has_bias() const { return epilogue != Epilogue::kNothing; }
  /*! \brief Of the tensors, the type. */
  DLDataType dtype() const;
  /*! \brief The shapes of x, w, bias, z and y, as far as there are such tensors. */
  std::vector<std::vector<int64_t>> Shapes() const;
};

/*! \brief How many numbers a problem is: the members of ConvolutionProblem in their order. */
inline constexpr size_t kNumbersOfProblem = 18;

/*!
 * \brief Reads a problem.
 * \throw ffi::Error, a ValueError, for numbers that are none.
 */
ConvolutionProblem ReadConvolution(::tvm::ffi::ShapeView numbers);

}  // namespace cuda
}  // namespace tvm_ios
#endif  // TVM_IOS_RUNTIME_CUDA_CUDNN_PROBLEM_H_
