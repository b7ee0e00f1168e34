// SPDX-License-Identifier: Apache-2.0
#include "runtime/cuda/driver.h"

#include <dlfcn.h>

#include <memory>

#include "support/error.h"

namespace tvm_ios {
namespace cuda {
namespace {

constexpr const char* kLibrary = "libcuda.so.1";
constexpr int kOldestVersion = 13000;  // of the CUDA whose runtime TVM needs
constexpr Result kOutOfMemory = 2;
constexpr Result kDeviceUnavailable = 46;
constexpr Result kNoDevice = 100;

constexpr const char* kNoDeviceText =
    "there is no CUDA device: run where nvidia-smi lists one, and look at CUDA_VISIBLE_DEVICES";

/*!
 * \brief Return "CUDA_ERROR_X (description)", or the number if the driver does not know the result.
 */
std::string Describe(Result result, const ResultNames& names) {
  const char* name = nullptr;
  const char* description = nullptr;
  if (names.name(result, &name) != kSuccess || name == nullptr) {
    return "error " + std::to_string(result);
  }
  if (names.description(result, &description) != kSuccess || description == nullptr) return name;
  return std::string(name) + " (" + description + ")";
}

}  // namespace

std::string VersionText(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

void ThrowOutOfMemory(const char* call) {
  throw DeviceError(std::string("the CUDA device is out of memory in ") + call +
                    ": end other programs that use it, or choose a smaller batch");
}

void ResultNames::Throw(const char* call, Result result) const {
  if (result == kOutOfMemory) ThrowOutOfMemory(call);
  if (result == kDeviceUnavailable) {
    throw DeviceError(
        "another process has the CUDA device to itself: end it (see nvidia-smi), or choose another "
        "device");
  }
  throw DeviceError(std::string(call) + " failed with " + Describe(result, *this) +
                    ": look at the device with nvidia-smi, and start this program anew");
}

const Driver& Driver::Get() {
  // Never unloaded: streams and events may be destroyed after static objects.
  static const Driver& driver = *std::make_unique<const Driver>(kLibrary).release();
  return driver;
}

Driver::Driver(const std::string& library)
    : library_(dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL)) {
  if (library_ == nullptr) {
    throw DeviceError("CUDA's driver cannot be loaded (" + std::string(dlerror()) +
                      "): install NVIDIA's driver, or choose the target llvm");
  }
  names_.name = reinterpret_cast<decltype(names_.name)>(Find("cuGetErrorName"));
  names_.description = reinterpret_cast<decltype(names_.description)>(Find("cuGetErrorString"));
  Initialize();
  BindDevices();
  BindMemory();
  BindStreams();
  BindGraphs();
}

/*!
 * \brief Check the version before the other functions are looked up, so that the error for an old
 * driver names its version.
 */
void Driver::Initialize() {
  DriverCall<unsigned> cuInit;
  DriverCall<int*> cuDriverGetVersion;
  DriverCall<int*> cuDeviceGetCount;
  Bind("cuInit", &cuInit);
  Bind("cuDriverGetVersion", &cuDriverGetVersion);
  Bind("cuDeviceGetCount", &cuDeviceGetCount);
  cuDriverGetVersion(&version_);
  if (version_ < kOldestVersion) {
    throw DeviceError("the CUDA driver is for CUDA " + VersionText(version_) +
                      ": install one for CUDA " + VersionText(kOldestVersion) + " or newer");
  }
  const Result started = cuInit.Try(0);
  if (started == kNoDevice) throw DeviceError(kNoDeviceText);
  cuInit.Check(started);
  cuDeviceGetCount(&num_devices_);
  if (num_devices_ == 0) throw DeviceError(kNoDeviceText);
}

void Driver::BindDevices() {
  Bind("cuDeviceGet", &cuDeviceGet);
  Bind("cuDeviceGetName", &cuDeviceGetName);
  Bind("cuDeviceGetAttribute", &cuDeviceGetAttribute);
  Bind("cuDeviceTotalMem", &cuDeviceTotalMem, "cuDeviceTotalMem_v2");
  Bind("cuDevicePrimaryCtxRetain", &cuDevicePrimaryCtxRetain);
  Bind("cuCtxPushCurrent", &cuCtxPushCurrent, "cuCtxPushCurrent_v2");
  Bind("cuCtxPopCurrent", &cuCtxPopCurrent, "cuCtxPopCurrent_v2");
}

void Driver::BindMemory() {
  Bind("cuMemAlloc", &cuMemAlloc, "cuMemAlloc_v2");
  Bind("cuMemFree", &cuMemFree, "cuMemFree_v2");
  Bind("cuMemcpyAsync", &cuMemcpyAsync);
  Bind("cuMemsetD8Async", &cuMemsetD8Async);
}

void Driver::BindStreams() {
  Bind("cuStreamCreate", &cuStreamCreate);
  Bind("cuStreamDestroy", &cuStreamDestroy, "cuStreamDestroy_v2");
  Bind("cuStreamSynchronize", &cuStreamSynchronize);
  Bind("cuStreamWaitEvent", &cuStreamWaitEvent);
  Bind("cuEventCreate", &cuEventCreate);
  Bind("cuEventDestroy", &cuEventDestroy, "cuEventDestroy_v2");
  Bind("cuEventRecord", &cuEventRecord);
  Bind("cuEventRecordWithFlags", &cuEventRecordWithFlags);
  Bind("cuEventSynchronize", &cuEventSynchronize);
  Bind("cuEventElapsedTime", &cuEventElapsedTime);
}

void Driver::BindGraphs() {
  Bind("cuStreamIsCapturing", &cuStreamIsCapturing);
  Bind("cuStreamBeginCapture", &cuStreamBeginCapture, "cuStreamBeginCapture_v2");
  Bind("cuStreamEndCapture", &cuStreamEndCapture);
  Bind("cuThreadExchangeStreamCaptureMode", &cuThreadExchangeStreamCaptureMode);
  Bind("cuGraphInstantiateWithFlags", &cuGraphInstantiateWithFlags);
  Bind("cuGraphLaunch", &cuGraphLaunch);
  Bind("cuGraphExecDestroy", &cuGraphExecDestroy);
  Bind("cuGraphDestroy", &cuGraphDestroy);
}

void* Driver::Find(const char* name) const {
  void* symbol = dlsym(library_.get(), name);
  if (symbol == nullptr) {
    throw DeviceError(std::string("the CUDA driver has no ") + name + ": install one for CUDA " +
                      VersionText(kOldestVersion) + " or newer");
  }
  return symbol;
}

template <typename... Args>
void Driver::Bind(const char* name, DriverCall<Args...>* call, const char* symbol) const {
  using Function = typename DriverCall<Args...>::Function;
  void* found = Find(symbol == nullptr ? name : symbol);
  *call = DriverCall<Args...>(name, reinterpret_cast<Function>(found), names_);
}

}  // namespace cuda
}  // namespace tvm_ios
