// SPDX-License-Identifier: Apache-2.0
/*!
 * \file runtime.cc
 * \brief Those functions of CUDA's runtime that TVM's calls, by those of the driver.
 */
#include <cstdlib>
#include <cstring>

#include "cuda/driver.h"
#include "cuda/results.h"

namespace {

constexpr size_t kPropertiesBytes = 1008;  // sizeof(cudaDeviceProp), CUDA 13

/*! \brief Makes the primary context of device 0 current where the thread has none, as CUDA does. */
int UseSomeDevice() {
  int device = 0;
  if (cuCtxGetDevice(&device) == fake_driver::kSuccess) return fake_driver::kSuccess;
  Handle context = nullptr;
  if (const int result = cuDevicePrimaryCtxRetain(&context, 0)) return result;
  return cuCtxSetCurrent(context);
}

template <typename Call>
int OnSomeDevice(Call call) {
  const int result = UseSomeDevice();
  return result == fake_driver::kSuccess ? call() : result;
}

const char* Text(int (*text_of)(int, const char**), int result) {
  const char* text = nullptr;
  text_of(result, &text);
  return text;
}

}  // namespace

#define FAKE_DRIVER_CUDART(name) TVM_IOS_FAKE_DRIVER_EXPORT int name

FAKE_DRIVER_CUDART(cudaGetDeviceCount)(int* count) { return cuDeviceGetCount(count); }

FAKE_DRIVER_CUDART(cudaSetDevice)(int device) {
  Handle context = nullptr;
  int found = 0;
  if (const int result = cuDeviceGet(&found, device)) return result;
  if (const int result = cuDevicePrimaryCtxRetain(&context, found)) return result;
  return cuCtxSetCurrent(context);
}

FAKE_DRIVER_CUDART(cudaGetDevice)(int* device) {
  return OnSomeDevice([&] { return cuCtxGetDevice(device); });
}

FAKE_DRIVER_CUDART(cudaDeviceGetAttribute)(int* value, int attribute, int device) {
  return cuDeviceGetAttribute(value, attribute, device);
}

FAKE_DRIVER_CUDART(cudaGetDeviceProperties)(void* properties, int /*device*/) {
  std::memset(properties, 0, kPropertiesBytes);
  return fake_driver::kSuccess;
}

FAKE_DRIVER_CUDART(cudaMemGetInfo)(size_t* available, size_t* total) {
  return cuMemGetInfo_v2(available, total);
}

FAKE_DRIVER_CUDART(cudaMalloc)(void** memory, size_t bytes) {
  return OnSomeDevice([&] { return cuMemAlloc_v2(memory, bytes); });
}

FAKE_DRIVER_CUDART(cudaFree)(void* memory) {
  return memory == nullptr ? fake_driver::kSuccess : cuMemFree_v2(memory);
}

FAKE_DRIVER_CUDART(cudaMallocHost)(void** memory, size_t bytes) {
  *memory = std::malloc(bytes);
  return *memory == nullptr ? fake_driver::kOutOfMemory : fake_driver::kSuccess;
}

FAKE_DRIVER_CUDART(cudaFreeHost)(void* memory) {
  std::free(memory);
  return fake_driver::kSuccess;
}

FAKE_DRIVER_CUDART(cudaMemcpyAsync)
(void* to, const void* from, size_t bytes, int /*kind*/, Handle stream) {
  return OnSomeDevice([&] { return cuMemcpyAsync(to, from, bytes, stream); });
}

FAKE_DRIVER_CUDART(cudaMemcpyPeerAsync)
(void* to, int /*to_device*/, const void* from, int /*from_device*/, size_t bytes, Handle stream) {
  return OnSomeDevice([&] { return cuMemcpyAsync(to, from, bytes, stream); });
}

FAKE_DRIVER_CUDART(cudaStreamCreateWithFlags)(Handle* stream, unsigned flags) {
  return OnSomeDevice([&] { return cuStreamCreate(stream, flags); });
}

FAKE_DRIVER_CUDART(cudaStreamCreate)(Handle* stream) {
  return cudaStreamCreateWithFlags(stream, 0);
}

FAKE_DRIVER_CUDART(cudaStreamDestroy)(Handle stream) { return cuStreamDestroy_v2(stream); }

FAKE_DRIVER_CUDART(cudaStreamSynchronize)(Handle stream) {
  return OnSomeDevice([&] { return cuStreamSynchronize(stream); });
}

FAKE_DRIVER_CUDART(cudaStreamWaitEvent)(Handle stream, Handle event, unsigned flags) {
  return OnSomeDevice([&] { return cuStreamWaitEvent(stream, event, flags); });
}

FAKE_DRIVER_CUDART(cudaEventCreate)(Handle* event) {
  return OnSomeDevice([&] { return cuEventCreate(event, 0); });
}

FAKE_DRIVER_CUDART(cudaEventDestroy)(Handle event) { return cuEventDestroy_v2(event); }

FAKE_DRIVER_CUDART(cudaEventRecord)(Handle event, Handle stream) {
  return OnSomeDevice([&] { return cuEventRecord(event, stream); });
}

FAKE_DRIVER_CUDART(cudaEventSynchronize)(Handle event) { return cuEventSynchronize(event); }

FAKE_DRIVER_CUDART(cudaEventElapsedTime)(float* milliseconds, Handle begin, Handle end) {
  return cuEventElapsedTime(milliseconds, begin, end);
}

FAKE_DRIVER_CUDART(cudaStreamBeginCapture)(Handle stream, int mode) {
  return cuStreamBeginCapture_v2(stream, mode);
}

FAKE_DRIVER_CUDART(cudaStreamEndCapture)(Handle stream, Handle* graph) {
  return cuStreamEndCapture(stream, graph);
}

FAKE_DRIVER_CUDART(cudaGraphInstantiate)(Handle* exec, Handle graph, unsigned long long flags) {
  return cuGraphInstantiateWithFlags(exec, graph, flags);
}

FAKE_DRIVER_CUDART(cudaGraphLaunch)(Handle exec, Handle stream) {
  return OnSomeDevice([&] { return cuGraphLaunch(exec, stream); });
}

FAKE_DRIVER_CUDART(cudaGraphExecDestroy)(Handle exec) { return cuGraphExecDestroy(exec); }

FAKE_DRIVER_CUDART(cudaGraphDestroy)(Handle graph) { return cuGraphDestroy(graph); }

FAKE_DRIVER_CUDART(cudaGetLastError)() { return fake_driver::kSuccess; }

FAKE_DRIVER_CUDART(cudaPeekAtLastError)() { return fake_driver::kSuccess; }

TVM_IOS_FAKE_DRIVER_EXPORT const char* cudaGetErrorName(int result) {
  return Text(cuGetErrorName, result);
}

TVM_IOS_FAKE_DRIVER_EXPORT const char* cudaGetErrorString(int result) {
  return Text(cuGetErrorString, result);
}
