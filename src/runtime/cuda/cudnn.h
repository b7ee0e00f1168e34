// SPDX-License-Identifier: Apache-2.0
/*!
 * \file cudnn.h
 * \brief The functions of cuDNN that convolutions need, found at run time.
 *
 * As with the driver, neither a header nor a library of cuDNN is needed to build or to load this
 * library. The part of cuDNN's interface that is used is the same in all versions 9.
 */
#ifndef TVM_IOS_RUNTIME_CUDA_CUDNN_H_
#define TVM_IOS_RUNTIME_CUDA_CUDNN_H_

#include <cstddef>
#include <memory>
#include <string>
#include <type_traits>

#include "runtime/cuda/driver.h"
#include "runtime/cuda/library.h"

namespace tvm_ios {
namespace cuda {

// As in cuDNN's headers.
using CudnnContext = struct cudnnContext*;
using TensorDescriptor = struct cudnnTensorStruct*;
using FilterDescriptor = struct cudnnFilterStruct*;
using ConvolutionDescriptor = struct cudnnConvolutionStruct*;
using ActivationDescriptor = struct cudnnActivationStruct*;

enum CudnnDataType : int { kCudnnFloat = 0, kCudnnHalf = 2, kCudnnBfloat16 = 9 };
enum CudnnFormat : int { kCudnnNchw = 0, kCudnnNhwc = 1 };
enum CudnnMath : int { kCudnnDefaultMath = 0, kCudnnTensorOpMath = 1, kCudnnFmaMath = 3 };
enum CudnnActivation : int { kCudnnRelu = 1, kCudnnIdentity = 5 };

inline constexpr int kCudnnCrossCorrelation = 1;
inline constexpr int kCudnnNotPropagateNan = 0;
inline constexpr int kCudnnDeterministic = 1;
inline constexpr int kCudnnImplicitPrecompGemm = 1;
inline constexpr int kCudnnMathWithConversion = 2;  // of float32 to float16

/*! \brief The properties of an algorithm that cuDNN reports without running it. */
struct CudnnAlgorithmHint {
  int algorithm;
  int status;
  float time;
  size_t memory;
  int determinism;
  int math;
  int reserved[3];
};

/*! \brief cuDNN's descriptions of its errors. */
struct CudnnWords {
  const char* (*name)(int status);
  void (*last)(char* text, size_t size);

  /*! \throw DeviceError with a message for the user. */
  [[noreturn]] void Throw(const char* call, int status) const;
};

template <typename... Args>
using CudnnCall = LibraryCall<CudnnWords, Args...>;

/*! \brief The loaded library; its members are named as in cuDNN's headers. */
class Cudnn {
 public:
  /*!
   * \brief Return the cuDNN of this process, loaded by the first call; thread-safe.
   * \throw DeviceError if there is none, or one older than version 9.
   */
  static const Cudnn& Get();

  /*! \brief Name the file that Get loads, as for dlopen; without effect once it is loaded. */
  static void Use(const std::string& library);

  /*!
   * \brief Load cuDNN.
   * \param library The file, as for dlopen.
   * \throw DeviceError as Get does.
   */
  explicit Cudnn(const std::string& library);
  Cudnn(const Cudnn&) = delete;
  Cudnn& operator=(const Cudnn&) = delete;

  /*! \brief The version, for example 9.28.0. */
  const std::string& version() const { return version_; }

  CudnnCall<CudnnContext*> cudnnCreate;
  CudnnCall<CudnnContext> cudnnDestroy;
  CudnnCall<CudnnContext, Stream> cudnnSetStream;

  CudnnCall<TensorDescriptor*> cudnnCreateTensorDescriptor;
  CudnnCall<TensorDescriptor> cudnnDestroyTensorDescriptor;
  /*! \brief Format, type, images, channels, rows, columns. */
  CudnnCall<TensorDescriptor, int, int, int, int, int, int> cudnnSetTensor4dDescriptor;
  CudnnCall<FilterDescriptor*> cudnnCreateFilterDescriptor;
  CudnnCall<FilterDescriptor> cudnnDestroyFilterDescriptor;
  /*! \brief Type, format, output channels, input channels of a group, rows, columns. */
  CudnnCall<FilterDescriptor, int, int, int, int, int, int> cudnnSetFilter4dDescriptor;
  CudnnCall<ConvolutionDescriptor*> cudnnCreateConvolutionDescriptor;
  CudnnCall<ConvolutionDescriptor> cudnnDestroyConvolutionDescriptor;
  /*! \brief Padding, strides and dilations, each of rows and columns; mode, type of sums. */
  CudnnCall<ConvolutionDescriptor, int, int, int, int, int, int, int, int>
      cudnnSetConvolution2dDescriptor;
  CudnnCall<ConvolutionDescriptor, int> cudnnSetConvolutionGroupCount;
  CudnnCall<ConvolutionDescriptor, int> cudnnSetConvolutionMathType;
  CudnnCall<ActivationDescriptor*> cudnnCreateActivationDescriptor;
  CudnnCall<ActivationDescriptor> cudnnDestroyActivationDescriptor;
  /*! \brief Mode, NaN propagation, a coefficient of other modes. */
  CudnnCall<ActivationDescriptor, int, int, double> cudnnSetActivationDescriptor;

  CudnnCall<CudnnContext, int*> cudnnGetConvolutionForwardAlgorithmMaxCount;
  CudnnCall<CudnnContext, TensorDescriptor, FilterDescriptor, ConvolutionDescriptor,
            TensorDescriptor, int, int*, CudnnAlgorithmHint*>
      cudnnGetConvolutionForwardAlgorithm;
  CudnnCall<CudnnContext, TensorDescriptor, FilterDescriptor, ConvolutionDescriptor,
            TensorDescriptor, int, size_t*>
      cudnnGetConvolutionForwardWorkspaceSize;
  /*! \brief y = alpha * (x convolved with w) + beta * y. */
  CudnnCall<CudnnContext, const float*, TensorDescriptor, const void*, FilterDescriptor,
            const void*, ConvolutionDescriptor, int, void*, size_t, const float*, TensorDescriptor,
            void*>
      cudnnConvolutionForward;
  /*! \brief y = activation(alpha * (x convolved with w) + alpha2 * z + bias). */
  CudnnCall<CudnnContext, const float*, TensorDescriptor, const void*, FilterDescriptor,
            const void*, ConvolutionDescriptor, int, void*, size_t, const float*, TensorDescriptor,
            const void*, TensorDescriptor, const void*, ActivationDescriptor, TensorDescriptor,
            void*>
      cudnnConvolutionBiasActivationForward;

 private:
  void CheckVersion();
  void BindDescriptors();
  void BindConvolutions();
  void* Find(const char* name) const;
  template <typename... Args>
  void Bind(const char* name, CudnnCall<Args...>* call) const;

  LibraryHandle library_;
  CudnnWords words_{};
  std::string version_;
};

template <typename Handle, CudnnCall<Handle> Cudnn::* kDestroy>
using OwnedByCudnn =
    std::unique_ptr<std::remove_pointer_t<Handle>, Destroyer<Cudnn, Handle, kDestroy>>;

using CudnnHandle = OwnedByCudnn<CudnnContext, &Cudnn::cudnnDestroy>;

}  // namespace cuda
}  // namespace tvm_ios
#endif  // TVM_IOS_RUNTIME_CUDA_CUDNN_H_
