// SPDX-License-Identifier: Apache-2.0
/*!
 * \file cudnn_problem.h
 * \brief A convolution problem for cuDNN, read from the numbers that a caller passes.
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

/*! \brief The type of all tensors and of the factors; sums are float32. */
enum class Precision : int {
  kFloat32 = 0,  // multiplied unchanged
  kTf32 = 1,     // float32 in memory, rounded to TF32 before it is multiplied
  kFloat16 = 2,
  kBfloat16 = 3,
};

enum class TensorLayout : int {
  kChannelsFirst = 0,  // NCHW, weights OIHW
  kChannelsLast = 1,   // NHWC, weights OHWI
};

/*! \brief The operations after the convolution. */
enum class Epilogue : int { kNothing = 0, kBias = 1, kBiasRelu = 2 };

/*! \brief A size in rows and one in columns. */
struct Extent {
  int rows;
  int columns;
};

/*! \brief A convolution problem: y = relu(conv(x, w) + bias + z); relu, bias and z are optional. */
struct ConvolutionProblem {
  Precision precision;
  TensorLayout layout;
  Epilogue epilogue;
  bool residual;  // whether there is a z; if so, there is a bias, too
  int batch;
  int in_channels;
  int out_channels;
  int groups;
  Extent image;
  Extent kernel;
  Extent padding;  // the same before the first and after the last row or column
  Extent stride;
  Extent dilation;

  Extent result() const;
  bool has_bias() const { return epilogue != Epilogue::kNothing; }
  /*! \brief The type of the tensors. */
  DLDataType dtype() const;
  /*! \brief The shapes of those of x, w, bias, z and y that the problem has. */
  std::vector<std::vector<int64_t>> Shapes() const;
};

/*! \brief The count of a problem's numbers: the members of ConvolutionProblem in their order. */
inline constexpr size_t kNumbersOfProblem = 18;

/*!
 * \brief Read a problem.
 * \throw ffi::Error, a ValueError, for numbers that are not a problem.
 */
ConvolutionProblem ReadConvolution(::tvm::ffi::ShapeView numbers);

}  // namespace cuda
}  // namespace tvm_ios
#endif  // TVM_IOS_RUNTIME_CUDA_CUDNN_PROBLEM_H_
