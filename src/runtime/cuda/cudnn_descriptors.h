// SPDX-License-Identifier: Apache-2.0
/*!
 * \file cudnn_descriptors.h
 * \brief Convolutions as cuDNN's descriptors.
 */
#ifndef TVM_IOS_RUNTIME_CUDA_CUDNN_DESCRIPTORS_H_
#define TVM_IOS_RUNTIME_CUDA_CUDNN_DESCRIPTORS_H_

#include "runtime/cuda/cudnn.h"
#include "runtime/cuda/cudnn_problem.h"

namespace tvm_ios {
namespace cuda {

using TensorHandle = OwnedByCudnn<TensorDescriptor, &Cudnn::cudnnDestroyTensorDescriptor>;
using FilterHandle = OwnedByCudnn<FilterDescriptor, &Cudnn::cudnnDestroyFilterDescriptor>;
using ConvolutionHandle =
    OwnedByCudnn<ConvolutionDescriptor, &Cudnn::cudnnDestroyConvolutionDescriptor>;
using ActivationHandle =
    OwnedByCudnn<ActivationDescriptor, &Cudnn::cudnnDestroyActivationDescriptor>;

/*!
 * \brief The descriptors of one problem; they are immutable, so that all threads may share them.
 */
struct Convolution {
  /*! \throw DeviceError if there is no cuDNN, or if it rejects the problem. */
  explicit Convolution(const ConvolutionProblem& problem);

  ConvolutionProblem problem;
  TensorHandle x;
  FilterHandle w;
  TensorHandle bias;
  TensorHandle y;  // and z
  ConvolutionHandle convolution;
  ActivationHandle activation;
};

/*!
 * \brief Return the descriptors of a problem, created by the first call and kept until the process
 * ends.
 * \param numbers As ReadConvolution takes them.
 * \throw As ReadConvolution and Convolution do.
 */
const Convolution& FindConvolution(::tvm::ffi::ShapeView numbers);

}  // namespace cuda
}  // namespace tvm_ios
#endif  // TVM_IOS_RUNTIME_CUDA_CUDNN_DESCRIPTORS_H_
