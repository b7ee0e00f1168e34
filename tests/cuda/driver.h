// SPDX-License-Identifier: Apache-2.0
/*!
 * \file driver.h
 * \brief Those functions of cuda.h that the project, TVM's CUDA runtime and the tests call.
 *
 * A CUdeviceptr is a pointer into the host's memory. A kernel that was compiled for the host runs
 * on the CPU, any other one computes nothing.
 */
#ifndef TVM_IOS_TESTS_CUDA_DRIVER_H_
#define TVM_IOS_TESTS_CUDA_DRIVER_H_

#include <stddef.h>

#include "cuda/control.h"

#define STANDIN_CUDA(name) TVM_IOS_STANDIN_EXPORT int name

struct StandInHandle;  // a stream, an event, a graph, a context, a module or a kernel
using Handle = StandInHandle*;

/*! \brief CUlaunchConfig. */
struct LaunchConfig {
  unsigned grid[3];
  unsigned block[3];
  unsigned shared_bytes;
  Handle stream;
  void* attributes;
  unsigned num_attributes;
};

STANDIN_CUDA(cuInit)(unsigned flags);
STANDIN_CUDA(cuDriverGetVersion)(int* version);
STANDIN_CUDA(cuGetErrorName)(int result, const char** text);
STANDIN_CUDA(cuGetErrorString)(int result, const char** text);

STANDIN_CUDA(cuDeviceGetCount)(int* count);
STANDIN_CUDA(cuDeviceGet)(int* device, int ordinal);
STANDIN_CUDA(cuDeviceGetName)(char* name, int size, int device);
STANDIN_CUDA(cuDeviceGetAttribute)(int* value, int attribute, int device);
STANDIN_CUDA(cuDeviceTotalMem_v2)(size_t* bytes, int device);
STANDIN_CUDA(cuDevicePrimaryCtxRetain)(Handle* context, int device);
STANDIN_CUDA(cuCtxPushCurrent_v2)(Handle context);
STANDIN_CUDA(cuCtxPopCurrent_v2)(Handle* context);
STANDIN_CUDA(cuCtxSetCurrent)(Handle context);
STANDIN_CUDA(cuCtxGetDevice)(int* device);

STANDIN_CUDA(cuStreamCreate)(Handle* stream, unsigned flags);
STANDIN_CUDA(cuStreamDestroy_v2)(Handle stream);
STANDIN_CUDA(cuStreamSynchronize)(Handle stream);
STANDIN_CUDA(cuStreamWaitEvent)(Handle stream, Handle event, unsigned flags);
STANDIN_CUDA(cuEventCreate)(Handle* event, unsigned flags);
STANDIN_CUDA(cuEventDestroy_v2)(Handle event);
STANDIN_CUDA(cuEventRecord)(Handle event, Handle stream);
STANDIN_CUDA(cuEventRecordWithFlags)(Handle event, Handle stream, unsigned flags);
STANDIN_CUDA(cuEventSynchronize)(Handle event);
STANDIN_CUDA(cuEventElapsedTime)(float* milliseconds, Handle begin, Handle end);

STANDIN_CUDA(cuStreamIsCapturing)(Handle stream, int* status);
STANDIN_CUDA(cuStreamBeginCapture_v2)(Handle stream, int mode);
STANDIN_CUDA(cuStreamEndCapture)(Handle stream, Handle* graph);
STANDIN_CUDA(cuThreadExchangeStreamCaptureMode)(int* mode);
STANDIN_CUDA(cuGraphInstantiateWithFlags)(Handle* exec, Handle graph, unsigned long long flags);
STANDIN_CUDA(cuGraphLaunch)(Handle exec, Handle stream);
STANDIN_CUDA(cuGraphExecDestroy)(Handle exec);
STANDIN_CUDA(cuGraphDestroy)(Handle graph);

STANDIN_CUDA(cuMemAlloc_v2)(void** memory, size_t bytes);
STANDIN_CUDA(cuMemFree_v2)(void* memory);
STANDIN_CUDA(cuMemcpyAsync)(void* to, const void* from, size_t bytes, Handle stream);
STANDIN_CUDA(cuMemsetD8Async)(void* to, unsigned char value, size_t bytes, Handle stream);
STANDIN_CUDA(cuMemGetInfo_v2)(size_t* available, size_t* total);

STANDIN_CUDA(cuModuleLoadData)(Handle* module, const void* image);
STANDIN_CUDA(cuModuleUnload)(Handle module);
STANDIN_CUDA(cuModuleGetFunction)(Handle* function, Handle module, const char* name);
STANDIN_CUDA(cuFuncSetAttribute)(Handle function, int attribute, int value);
STANDIN_CUDA(cuLaunchKernelEx)
(const LaunchConfig* config, Handle function, void** params, void** extra);

/*! \brief It is not supported, whatever its arguments: TVM's library asks for it to be there. */
STANDIN_CUDA(cuTensorMapEncodeTiled)();

#endif  // TVM_IOS_TESTS_CUDA_DRIVER_H_
