// SPDX-License-Identifier: Apache-2.0
/*!
 * \file cudnn_convolution.h
 * \brief Convolutions by cuDNN, on the current stream.
 */
#ifndef TVM_IOS_RUNTIME_CUDA_CUDNN_CONVOLUTION_H_
#define TVM_IOS_RUNTIME_CUDA_CUDNN_CONVOLUTION_H_

#include <tvm/ffi/container/shape.h>
#include <tvm/ffi/function.h>

#include <cstdint>
#include <vector>

namespace tvm_ios {
namespace cuda {

/*! \brief An algorithm of cuDNN for a convolution. */
struct ConvolutionAlgorithm {
  int64_t algorithm;  // cuDNN's number
  int64_t workspace;  // bytes of memory that it needs besides the tensors
};

/*!
 * \brief Return cuDNN's algorithms for a problem, in its order of expected speed.
 *
 * Nothing is run. The list contains only deterministic algorithms.
 *
 * \param device_id The device to query.
 * \param numbers As ReadConvolution takes them.
 * \throw DeviceError if there is no such device or no cuDNN; ffi::Error, a ValueError, for numbers
 *  that are not a problem.
 */
std::vector<ConvolutionAlgorithm> FindAlgorithms(int64_t device_id, ::tvm::ffi::ShapeView numbers);

/*!
 * \brief Issue a convolution on the device's current stream.
 *
 * Nothing is allocated, so the call may be captured if cuDNN was used on the same thread before.
 *
 * \param args The tensors x, w, bias and z as far as the problem has them, y, and the workspace if
 *  the algorithm needs one, which no other stream may use meanwhile; then the algorithm and the
 *  numbers of the problem, as ReadConvolution takes them, each as a separate argument.
 * \throw DeviceError for an error of cuDNN; ffi::Error, a TypeError or a ValueError, for invalid
 *  arguments.
 */
void RunConvolution(::tvm::ffi::PackedArgs args);

}  // namespace cuda
}  // namespace tvm_ios
#endif  // TVM_IOS_RUNTIME_CUDA_CUDNN_CONVOLUTION_H_
