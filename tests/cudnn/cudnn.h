// SPDX-License-Identifier: Apache-2.0
/*!
 * \file cudnn.h
 * \brief Those functions of cuDNN that the project calls; its types are void pointers here.
 *
 * TVM_IOS_FAKE_CUDNN_VERSION tells the version (92800).
 */
#ifndef TVM_IOS_TESTS_CUDNN_CUDNN_H_
#define TVM_IOS_TESTS_CUDNN_CUDNN_H_

#include <stddef.h>

#include "cuda/driver.h"

#define FAKE_CUDNN(name) TVM_IOS_FAKE_DRIVER_EXPORT int name

using Object = void*;  // a handle or a descriptor

/*! \brief cudnnConvolutionFwdAlgoPerf_t. */
struct AlgorithmPerformance {
  int algorithm;
  int status;
  float time;
  size_t memory;
  int determinism;
  int math;
  int reserved[3];
};

TVM_IOS_FAKE_DRIVER_EXPORT size_t cudnnGetVersion();
TVM_IOS_FAKE_DRIVER_EXPORT const char* cudnnGetErrorString(int status);
TVM_IOS_FAKE_DRIVER_EXPORT void cudnnGetLastErrorString(char* text, size_t size);

FAKE_CUDNN(cudnnCreate)(Object* handle);
FAKE_CUDNN(cudnnDestroy)(Object handle);
FAKE_CUDNN(cudnnSetStream)(Object handle, Handle stream);

FAKE_CUDNN(cudnnCreateTensorDescriptor)(Object* tensor);
FAKE_CUDNN(cudnnDestroyTensorDescriptor)(Object tensor);
FAKE_CUDNN(cudnnSetTensor4dDescriptor)
(Object tensor, int format, int type, int n, int c, int h, int w);
FAKE_CUDNN(cudnnCreateFilterDescriptor)(Object* filter);
FAKE_CUDNN(cudnnDestroyFilterDescriptor)(Object filter);
FAKE_CUDNN(cudnnSetFilter4dDescriptor)
(Object filter, int type, int format, int k, int c, int h, int w);
FAKE_CUDNN(cudnnCreateConvolutionDescriptor)(Object* convolution);
FAKE_CUDNN(cudnnDestroyConvolutionDescriptor)(Object convolution);
FAKE_CUDNN(cudnnSetConvolution2dDescriptor)
(Object convolution, int pad_h, int pad_w, int stride_h, int stride_w, int dilation_h,
 int dilation_w, int mode, int type);
FAKE_CUDNN(cudnnSetConvolutionGroupCount)(Object convolution, int groups);
FAKE_CUDNN(cudnnSetConvolutionMathType)(Object convolution, int math);
FAKE_CUDNN(cudnnCreateActivationDescriptor)(Object* activation);
FAKE_CUDNN(cudnnDestroyActivationDescriptor)(Object activation);
FAKE_CUDNN(cudnnSetActivationDescriptor)(Object activation, int mode, int nan, double coefficient);

FAKE_CUDNN(cudnnGetConvolutionForwardAlgorithmMaxCount)(Object handle, int* count);
FAKE_CUDNN(cudnnGetConvolutionForwardAlgorithm_v7)
(Object handle, Object x, Object w, Object convolution, Object y, int wanted, int* found,
 AlgorithmPerformance* performance);
FAKE_CUDNN(cudnnGetConvolutionForwardWorkspaceSize)
(Object handle, Object x, Object w, Object convolution, Object y, int algorithm, size_t* bytes);
FAKE_CUDNN(cudnnConvolutionForward)
(Object handle, const float* alpha, Object x, const void* x_data, Object w, const void* w_data,
 Object convolution, int algorithm, void* workspace, size_t workspace_bytes, const float* beta,
 Object y, void* y_data);
FAKE_CUDNN(cudnnConvolutionBiasActivationForward)
(Object handle, const float* alpha, Object x, const void* x_data, Object w, const void* w_data,
 Object convolution, int algorithm, void* workspace, size_t workspace_bytes, const float* alpha2,
 Object z, const void* z_data, Object bias, const void* bias_data, Object activation, Object y,
 void* y_data);

#endif  // TVM_IOS_TESTS_CUDNN_CUDNN_H_
