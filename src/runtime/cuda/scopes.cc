// SPDX-License-Identifier: Apache-2.0
#include "runtime/cuda/scopes.h"

#include <tvm/ffi/extra/c_env_api.h>
#include <tvm/ffi/function.h>

#include <map>
#include <mutex>
#include <string>

#include "support/error.h"

namespace tvm_ios {
namespace cuda {
namespace {

/*! \brief Return a device's primary context, retained until the process ends, as TVM does. */
Context PrimaryContext(int device_id) {
  static std::mutex mutex;
  static std::map<int, Context> contexts;
  const std::lock_guard<std::mutex> lock(mutex);
  const auto known = contexts.find(device_id);
  if (known != contexts.end()) return known->second;
  Context context = nullptr;
  Driver::Get().cuDevicePrimaryCtxRetain(&context, FindDevice(device_id));
  contexts.emplace(device_id, context);
  return context;
}

}  // namespace

Device FindDevice(int64_t device_id) {
  const Driver& driver = Driver::Get();
  if (device_id < 0 || device_id >= driver.num_devices()) {
    throw DeviceError("there is no CUDA device " + std::to_string(device_id) +
                      ": choose one from 0 to " + std::to_string(driver.num_devices() - 1));
  }
  Device device = 0;
  driver.cuDeviceGet(&device, static_cast<int>(device_id));
  return device;
}

ContextScope::ContextScope(int device_id) {
  Driver::Get().cuCtxPushCurrent(PrimaryContext(device_id));
}

ContextScope::~ContextScope() {
  Context popped = nullptr;
  Driver::Get().cuCtxPopCurrent.Try(&popped);
}

bool IsCapturing(Stream stream) {
  int capturing = kNotCapturing;
  Driver::Get().cuStreamIsCapturing(stream, &capturing);
  return capturing != kNotCapturing;
}

Stream CurrentStream(int device_id) {
  return static_cast<Stream>(TVMFFIEnvGetStream(kDLCUDA, device_id));
}

StreamScope::StreamScope(int device_id)
    : device_id_(device_id), original_(CurrentStream(device_id)), current_(original_) {}

StreamScope::~StreamScope() {
  if (current_ != original_) TVMFFIEnvSetStream(kDLCUDA, device_id_, original_, nullptr);
}

void StreamScope::Set(Stream stream) {
  if (stream == current_) return;
  TVM_FFI_CHECK_SAFE_CALL(TVMFFIEnvSetStream(kDLCUDA, device_id_, stream, nullptr));
  current_ = stream;
}

}  // namespace cuda
}  // namespace tvm_ios
