// SPDX-License-Identifier: Apache-2.0
/*!
 * \file driver.cc
 * \brief Those functions of the driver that have to do with devices, streams and graphs.
 */
#include "cuda/driver.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <string>

#include "cuda/state.h"

namespace fake_driver {
namespace {

constexpr int kDefaultDevices = 2;
constexpr int kDefaultVersion = 13000;

int FromEnvironment(const char* name, int otherwise) {
  const char* value = std::getenv(name);
  return value == nullptr ? otherwise : std::atoi(value);
}

int NumDevices() { return FromEnvironment("TVM_IOS_FAKE_DRIVER_DEVICES", kDefaultDevices); }

Handle ContextOf(int device) { return ToHandle(static_cast<Id>(device) + 1); }

/*! \brief A CUdevice_attribute of a device like an H100; of those that nobody asks for it has one.
 */
int Attribute(int attribute) {
  static const std::map<int, int> values{
      {1, 1024},        // threads per block
      {8, 49152},       // bytes of shared memory per block
      {10, 32},         // threads per warp
      {16, 132},        // multiprocessors
      {38, 50 << 20},   // bytes of the second cache
      {39, 2048},       // threads per multiprocessor
      {75, 9},          // compute capability, major
      {76, 0},          // and minor
      {81, 228 << 10},  // bytes of shared memory per multiprocessor
      {82, 65536},      // registers per multiprocessor
      {97, 227 << 10},  // bytes of shared memory that a block may request
      {111, 1 << 10},   // and that are kept from it
  };
  const auto found = values.find(attribute);
  return found == values.end() ? 1 : found->second;
}

}  // namespace
}  // namespace fake_driver

using fake_driver::Enter;
using fake_driver::EnterMaking;
using fake_driver::Id;
using fake_driver::Machine;
using fake_driver::State;
using fake_driver::ToId;

void TvmIosStandInClear() {
  State& state = fake_driver::TheState();
  const std::lock_guard<std::mutex> lock(state.mutex);
  state.journal.Clear();
}

size_t TvmIosStandInJournal(char* text, size_t size) {
  State& state = fake_driver::TheState();
  const std::lock_guard<std::mutex> lock(state.mutex);
  const std::string& journal = state.journal.text();
  if (size > 0) {
    const size_t length = std::min(size - 1, journal.size());
    std::memcpy(text, journal.data(), length);
    text[length] = '\0';
  }
  return journal.size() + 1;
}

void TvmIosStandInNote(const char* what) {
  State& state = fake_driver::TheState();
  const std::lock_guard<std::mutex> lock(state.mutex);
  state.journal.Write(what);
}

// Start and errors

int cuInit(unsigned /*flags*/) {
  return Enter("cuInit", [](State&) {
    return fake_driver::NumDevices() > 0 ? fake_driver::kSuccess : fake_driver::kNoDevice;
  });
}

int cuDriverGetVersion(int* version) {
  *version =
      fake_driver::FromEnvironment("TVM_IOS_FAKE_DRIVER_VERSION", fake_driver::kDefaultVersion);
  return fake_driver::kSuccess;
}

int cuGetErrorName(int result, const char** text) {
  *text = result == fake_driver::kOutOfMemory    ? "CUDA_ERROR_OUT_OF_MEMORY"
          : result == fake_driver::kLaunchFailed ? fake_driver::TheState().failure.c_str()
                                                 : "CUDA_ERROR_OF_FAKE_DRIVER";
  return fake_driver::kSuccess;
}

int cuGetErrorString(int result, const char** text) {
  *text = result == fake_driver::kLaunchFailed ? fake_driver::TheState().failure.c_str()
                                               : "the fake driver's journal tells";
  return fake_driver::kSuccess;
}

// Devices and contexts

int cuDeviceGetCount(int* count) {
  *count = fake_driver::NumDevices();
  return fake_driver::kSuccess;
}

int cuDeviceGet(int* device, int ordinal) {
  if (ordinal < 0 || ordinal >= fake_driver::NumDevices()) return fake_driver::kInvalidDevice;
  *device = ordinal;
  return fake_driver::kSuccess;
}

int cuDeviceGetName(char* name, int size, int device) {
  const std::string text = "Stand-in " + std::to_string(device);
  if (size <= static_cast<int>(text.size())) return fake_driver::kInvalidValue;
  std::memcpy(name, text.c_str(), text.size() + 1);
  return fake_driver::kSuccess;
}

int cuDeviceGetAttribute(int* value, int attribute, int /*device*/) {
  *value = fake_driver::Attribute(attribute);
  return fake_driver::kSuccess;
}

int cuDeviceTotalMem_v2(size_t* bytes, int /*device*/) {
  *bytes = fake_driver::kMemoryBytes;
  return fake_driver::kSuccess;
}

int cuDevicePrimaryCtxRetain(Handle* context, int device) {
  return Enter("cuDevicePrimaryCtxRetain", [&](State&) {
    *context = fake_driver::ContextOf(device);
    return fake_driver::kSuccess;
  });
}

int cuCtxPushCurrent_v2(Handle context) {
  fake_driver::Contexts().push_back(static_cast<int>(ToId(context)) - 1);
  return fake_driver::kSuccess;
}

int cuCtxPopCurrent_v2(Handle* context) {
  if (fake_driver::Contexts().empty()) return fake_driver::kInvalidContext;
  *context = fake_driver::ContextOf(fake_driver::Current());
  fake_driver::Contexts().pop_back();
  return fake_driver::kSuccess;
}

int cuCtxSetCurrent(Handle context) {
  if (!fake_driver::Contexts().empty()) fake_driver::Contexts().pop_back();
  return cuCtxPushCurrent_v2(context);
}

int cuCtxGetDevice(int* device) {
  *device = fake_driver::Current();
  return *device < 0 ? fake_driver::kInvalidContext : fake_driver::kSuccess;
}

// Streams and events

int cuStreamCreate(Handle* stream, unsigned flags) {
  return EnterMaking("cuStreamCreate", stream, [&](Machine& machine, Id* id) {
    return machine.CreateStream(fake_driver::Current(), flags, id);
  });
}

int cuStreamDestroy_v2(Handle stream) {
  return Enter("cuStreamDestroy", [&](State& state) {
    return state.machine.DestroyStream(fake_driver::Current(), ToId(stream));
  });
}

int cuStreamSynchronize(Handle stream) {
  return Enter("cuStreamSynchronize", [&](State& state) {
    return state.machine.Synchronize(fake_driver::Current(), ToId(stream));
  });
}

int cuStreamWaitEvent(Handle stream, Handle event, unsigned /*flags*/) {
  return Enter("cuStreamWaitEvent", [&](State& state) {
    return state.machine.Wait(fake_driver::Current(), ToId(stream), ToId(event));
  });
}

int cuEventCreate(Handle* event, unsigned flags) {
  return EnterMaking("cuEventCreate", event, [&](Machine& machine, Id* id) {
    return machine.CreateEvent(fake_driver::Current(), flags, id);
  });
}

int cuEventDestroy_v2(Handle event) {
  return Enter("cuEventDestroy",
               [&](State& state) { return state.machine.DestroyEvent(ToId(event)); });
}

int cuEventRecord(Handle event, Handle stream) {
  return Enter("cuEventRecord", [&](State& state) {
    return state.machine.Record(fake_driver::Current(), ToId(event), ToId(stream));
  });
}

int cuEventRecordWithFlags(Handle event, Handle stream, unsigned flags) {
  return Enter("cuEventRecordWithFlags", [&](State& state) {
    Machine& machine = state.machine;
    return flags == fake_driver::kEventRecordExternal
               ? machine.RecordNode(fake_driver::Current(), ToId(event), ToId(stream))
               : machine.Record(fake_driver::Current(), ToId(event), ToId(stream));
  });
}

int cuEventSynchronize(Handle event) {
  return Enter("cuEventSynchronize",
               [&](State& state) { return state.machine.SynchronizeEvent(ToId(event)); });
}

int cuEventElapsedTime(float* milliseconds, Handle begin, Handle end) {
  return Enter("cuEventElapsedTime", [&](State& state) {
    return state.machine.Elapsed(ToId(begin), ToId(end), milliseconds);
  });
}

// Graphs

int cuStreamIsCapturing(Handle stream, int* status) {
  return Enter("cuStreamIsCapturing", [&](State& state) {
    return state.machine.Status(fake_driver::Current(), ToId(stream), status);
  });
}

int cuStreamBeginCapture_v2(Handle stream, int mode) {
  return Enter("cuStreamBeginCapture", [&](State& state) {
    return state.machine.BeginCapture(fake_driver::Current(), ToId(stream), mode);
  });
}

int cuStreamEndCapture(Handle stream, Handle* graph) {
  return EnterMaking("cuStreamEndCapture", graph, [&](Machine& machine, Id* id) {
    return machine.EndCapture(fake_driver::Current(), ToId(stream), id);
  });
}

int cuThreadExchangeStreamCaptureMode(int* mode) {
  *mode = Machine::ExchangeMode(*mode);
  return fake_driver::kSuccess;
}

int cuGraphInstantiateWithFlags(Handle* exec, Handle graph, unsigned long long /*flags*/) {
  return EnterMaking("cuGraphInstantiate", exec, [&](Machine& machine, Id* id) {
    return machine.Instantiate(ToId(graph), id);
  });
}

int cuGraphLaunch(Handle exec, Handle stream) {
  return Enter("cuGraphLaunch", [&](State& state) {
    return state.machine.Replay(fake_driver::Current(), ToId(exec), ToId(stream));
  });
}

int cuGraphExecDestroy(Handle exec) {
  return Enter("cuGraphExecDestroy",
               [&](State& state) { return state.machine.DestroyExec(ToId(exec)); });
}

int cuGraphDestroy(Handle graph) {
  return Enter("cuGraphDestroy",
               [&](State& state) { return state.machine.DestroyGraph(ToId(graph)); });
}

int cuMemGetInfo_v2(size_t* available, size_t* total) {
  *available = *total = fake_driver::kMemoryBytes;
  return fake_driver::kSuccess;
}
