// SPDX-License-Identifier: Apache-2.0
/*!
 * \file cudnn.h
 * \brief Those functions of cuDNN that the project calls; its types are void pointers here.
 *
 * TVM_IOS_STANDIN_CUDNN_VERSION tells the version (92800).
 */
#ifndef TVM_IOS_TESTS_CUDNN_CUDNN_H_
#define TVM_IOS_TESTS_CUDNN_CUDNN_H_

#include <stddef.h>

#include "cuda/driver.h"

#define STANDIN_CUDNN(name) TVM_IOS_STANDIN_EXPORT int name

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

TVM_IOS_STANDIN_EXPORT size_t cudnnGetVersion();
TVM_IOS_STANDIN_EXPORT const char* cudnnGetErrorString(int status);
TVM_IOS_STANDIN_EXPORT void cudnnGetLastErrorString(char* text, size_t size);

STANDIN_CUDNN(cudnnCreate)(Object* handle);
STANDIN_CUDNN(cudnnDestroy)(Object handle);
STANDIN_CUDNN(cudnnSetStream)(Object handle, Handle stream);

STANDIN_CUDNN(cudnnCreateTensorDescriptor)(Object* tensor);
STANDIN_CUDNN(cudnnDestroyTensorDescriptor)(Object tensor);
STANDIN_CUDNN(cudnnSetTensor4dDescriptor)
(Object tensor, int format, int type, int n, int c, int h, int w);
STANDIN_CUDNN(cudnnCreateFilterDescriptor)(Object* filter);
STANDIN_CUDNN(cudnnDestroyFilterDescriptor)(Object filter);
STANDIN_CUDNN(cudnnSetFilter4dDescriptor)
(Object filter, int type, int format, int k, int c, int h, int w);
STANDIN_CUDNN(cudnnCreateConvolutionDescriptor)(Object* convolution);
STANDIN_CUDNN(cudnnDestroyConvolutionDescriptor)(Object convolution);
STANDIN_CUDNN(cudnnSetConvolution2dDescriptor)
(Object convolution, int pad_h, int pad_w, int stride_h, int stride_w, int dilation_h,
 int dilation_w, int mode, int type);
STANDIN_CUDNN(cudnnSetConvolutionGroupCount)(Object convolution, int groups);
STANDIN_CUDNN(cudnnSetConvolutionMathType)(Object convolution, int math);
STANDIN_CUDNN(cudnnCreateActivationDescriptor)(Object* activation);
STANDIN_CUDNN(cudnnDestroyActivationDescriptor)(Object activation);
STANDIN_CUDNN(cudnnSetActivationDescriptor)(Object activation, int mode, int nan,
                                            double coefficient);

STANDIN_CUDNN(cudnnGetConvolutionForwardAlgorithmMaxCount)(Object handle, int* count);
STANDIN_CUDNN(cudnnGetConvolutionForwardAlgorithm_v7)
(Object handle, Object x, Object w, Object convolution, Object y, int wanted, int* found,
 AlgorithmPerformance* performance);
STANDIN_CUDNN(cudnnGetConvolutionForwardWorkspaceSize)
(Object handle, Object x, Object w, Object convolution, Object y, int algorithm, size_t* bytes);
STANDIN_CUDNN(cudnnConvolutionForward)
(Object handle, const float* alpha, Object x, const void* x_data, Object w, const void* w_data,
 Object convolution, int algorithm, void* workspace, size_t workspace_bytes, const float* beta,
 Object y, void* y_data);
STANDIN_CUDNN(cudnnConvolutionBiasActivationForward)
(Object handle, const float* alpha, Object x, const void* x_data, Object w, const void* w_data,
 Object convolution, int algorithm, void* workspace, size_t workspace_bytes, const float* alpha2,
 Object z, const void* z_data, Object bias, const void* bias_data, Object activation, Object y,
 void* y_data);

#endif  // TVM_IOS_TESTS_CUDNN_CUDNN_H_
