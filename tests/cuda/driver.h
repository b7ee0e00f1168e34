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

#define FAKE_DRIVER_CUDA(name) TVM_IOS_FAKE_DRIVER_EXPORT int name

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

FAKE_DRIVER_CUDA(cuInit)(unsigned flags);
FAKE_DRIVER_CUDA(cuDriverGetVersion)(int* version);
FAKE_DRIVER_CUDA(cuGetErrorName)(int result, const char** text);
FAKE_DRIVER_CUDA(cuGetErrorString)(int result, const char** text);

FAKE_DRIVER_CUDA(cuDeviceGetCount)(int* count);
FAKE_DRIVER_CUDA(cuDeviceGet)(int* device, int ordinal);
FAKE_DRIVER_CUDA(cuDeviceGetName)(char* name, int size, int device);
FAKE_DRIVER_CUDA(cuDeviceGetAttribute)(int* value, int attribute, int device);
FAKE_DRIVER_CUDA(cuDeviceTotalMem_v2)(size_t* bytes, int device);
FAKE_DRIVER_CUDA(cuDevicePrimaryCtxRetain)(Handle* context, int device);
FAKE_DRIVER_CUDA(cuCtxPushCurrent_v2)(Handle context);
FAKE_DRIVER_CUDA(cuCtxPopCurrent_v2)(Handle* context);
FAKE_DRIVER_CUDA(cuCtxSetCurrent)(Handle context);
FAKE_DRIVER_CUDA(cuCtxGetDevice)(int* device);

FAKE_DRIVER_CUDA(cuStreamCreate)(Handle* stream, unsigned flags);
FAKE_DRIVER_CUDA(cuStreamDestroy_v2)(Handle stream);
FAKE_DRIVER_CUDA(cuStreamSynchronize)(Handle stream);
FAKE_DRIVER_CUDA(cuStreamWaitEvent)(Handle stream, Handle event, unsigned flags);
FAKE_DRIVER_CUDA(cuEventCreate)(Handle* event, unsigned flags);
FAKE_DRIVER_CUDA(cuEventDestroy_v2)(Handle event);
FAKE_DRIVER_CUDA(cuEventRecord)(Handle event, Handle stream);
FAKE_DRIVER_CUDA(cuEventRecordWithFlags)(Handle event, Handle stream, unsigned flags);
FAKE_DRIVER_CUDA(cuEventSynchronize)(Handle event);
FAKE_DRIVER_CUDA(cuEventElapsedTime)(float* milliseconds, Handle begin, Handle end);

FAKE_DRIVER_CUDA(cuStreamIsCapturing)(Handle stream, int* status);
FAKE_DRIVER_CUDA(cuStreamBeginCapture_v2)(Handle stream, int mode);
FAKE_DRIVER_CUDA(cuStreamEndCapture)(Handle stream, Handle* graph);
FAKE_DRIVER_CUDA(cuThreadExchangeStreamCaptureMode)(int* mode);
FAKE_DRIVER_CUDA(cuGraphInstantiateWithFlags)(Handle* exec, Handle graph, unsigned long long flags);
FAKE_DRIVER_CUDA(cuGraphLaunch)(Handle exec, Handle stream);
FAKE_DRIVER_CUDA(cuGraphExecDestroy)(Handle exec);
FAKE_DRIVER_CUDA(cuGraphDestroy)(Handle graph);

FAKE_DRIVER_CUDA(cuMemAlloc_v2)(void** memory, size_t bytes);
FAKE_DRIVER_CUDA(cuMemFree_v2)(void* memory);
FAKE_DRIVER_CUDA(cuMemcpyAsync)(void* to, const void* from, size_t bytes, Handle stream);
FAKE_DRIVER_CUDA(cuMemsetD8Async)(void* to, unsigned char value, size_t bytes, Handle stream);
FAKE_DRIVER_CUDA(cuMemGetInfo_v2)(size_t* available, size_t* total);

FAKE_DRIVER_CUDA(cuModuleLoadData)(Handle* module, const void* image);
FAKE_DRIVER_CUDA(cuModuleUnload)(Handle module);
FAKE_DRIVER_CUDA(cuModuleGetFunction)(Handle* function, Handle module, const char* name);
FAKE_DRIVER_CUDA(cuFuncSetAttribute)(Handle function, int attribute, int value);
FAKE_DRIVER_CUDA(cuLaunchKernelEx)
(const LaunchConfig* config, Handle function, void** params, void** extra);

/*! \brief It is not supported, whatever its arguments: TVM's library asks for it to be there. */
FAKE_DRIVER_CUDA(cuTensorMapEncodeTiled)();

#endif  // TVM_IOS_TESTS_CUDA_DRIVER_H_
