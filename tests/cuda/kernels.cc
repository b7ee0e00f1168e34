// SPDX-License-Identifier: Apache-2.0
/*!
 * \file kernels.cc
 * \brief Those functions of the driver that have to do with memory and with kernels.
 */
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>

#include "cuda/launch.h"
#include "cuda/state.h"

namespace fake_driver {
namespace {

constexpr unsigned kMaxThreads = 1024;
constexpr unsigned kMaxGridSide = 65535;  // but for x
constexpr size_t kDefaultSharedBytes = 49152;
constexpr size_t kMostSharedBytes = 232448;
constexpr int kMaxDynamicSharedBytes = 8;  // a CUfunction_attribute

/*! \brief Why a device does not launch it, or nothing. */
std::string Refusal(const Launched& launched, const Function& function) {
  const Index& block = launched.block;
  const Index& grid = launched.grid;
  if (block.x * block.y * block.z > kMaxThreads || block.z > 64) return "too many threads";
  if (block.x * block.y * block.z == 0 || grid.x * grid.y * grid.z == 0) return "no threads";
  if (grid.y > kMaxGridSide || grid.z > kMaxGridSide) return "too many blocks";
  const size_t declared = launched.kernel->shared_end - launched.kernel->shared_begin;
  if (declared > kDefaultSharedBytes) return "too much static shared memory";
  if (declared + launched.shared_bytes >
      std::max<size_t>(kDefaultSharedBytes, function.dynamic_bytes)) {
    return "more shared memory than it was given";
  }
  return "";
}

/*! \brief Whether kernels compute; else they only take their time. */
bool Computes() {
  const char* wanted = std::getenv("TVM_IOS_FAKE_DRIVER_COMPUTE");
  return wanted == nullptr || std::string(wanted) != "0";
}

/*! \brief The launch as something to do, at once or in a graph. */
Work WorkOf(State& state, const Function& function, const Launched& launched) {
  return [&state, name = function.name, launched] {
    if (!Computes()) return kSuccess;
    const std::string wrong = state.executor.Run(launched);
    if (wrong.empty()) return kSuccess;
    state.failure = name + ": " + wrong;
    return state.journal.Misuse(kLaunchFailed, state.failure);
  };
}

}  // namespace
}  // namespace fake_driver

using fake_driver::Enter;
using fake_driver::Function;
using fake_driver::Launched;
using fake_driver::State;
using fake_driver::ToId;

// Memory

int cuMemAlloc_v2(void** memory, size_t bytes) {
  return Enter("cuMemAlloc", [&](State& state) {
    if (const auto unsafe = state.machine.CheckUnsafe("memory allocated")) return unsafe;
    *memory = state.memory.Allocate(bytes);
    if (*memory == nullptr) return fake_driver::kOutOfMemory;
    state.journal.Write("allocate " + std::to_string(bytes));
    return fake_driver::kSuccess;
  });
}

int cuMemFree_v2(void* memory) {
  return Enter("cuMemFree", [&](State& state) {
    if (const auto unsafe = state.machine.CheckUnsafe("memory freed")) return unsafe;
    if (const auto failed = state.machine.Flush()) return failed;
    if (!state.memory.Free(memory)) {
      return state.journal.Misuse(fake_driver::kInvalidValue, "memory freed that is none");
    }
    return fake_driver::kSuccess;
  });
}

int cuMemcpyAsync(void* to, const void* from, size_t bytes, Handle stream) {
  return Enter("cuMemcpyAsync", [&](State& state) {
    const auto copy = [=] {
      std::memmove(to, from, bytes);
      return fake_driver::kSuccess;
    };
    const auto issued = state.machine.Launch(fake_driver::Current(), ToId(stream), "copy", copy);
    if (issued != fake_driver::kSuccess) return issued;
    // Of memory of the host's own, nobody waits before it is used again.
    const bool on_device = state.memory.Contains(to) && state.memory.Contains(from);
    return on_device ? fake_driver::kSuccess : state.machine.Flush();
  });
}

int cuMemsetD8Async(void* to, unsigned char value, size_t bytes, Handle stream) {
  return Enter("cuMemsetD8Async", [&](State& state) {
    const auto set = [=] {
      std::memset(to, value, bytes);
      return fake_driver::kSuccess;
    };
    return state.machine.Launch(fake_driver::Current(), ToId(stream), "set", set);
  });
}

// Kernels

int cuModuleLoadData(Handle* module, const void* image) {
  return Enter("cuModuleLoadData", [&](State& state) {
    if (const auto unsafe = state.machine.CheckUnsafe("module loaded")) return unsafe;
    auto loaded = std::make_unique<fake_driver::Image>(image);
    if (loaded->broken()) return fake_driver::kInvalidImage;
    const fake_driver::Id id = ToId(loaded.get());
    state.images.emplace(id, std::move(loaded));
    *module = fake_driver::ToHandle(id);
    return fake_driver::kSuccess;
  });
}

int cuModuleUnload(Handle module) {
  return Enter("cuModuleUnload", [&](State& state) {
    if (const auto failed = state.machine.Flush()) return failed;
    return state.images.erase(ToId(module)) == 1 ? fake_driver::kSuccess
                                                 : fake_driver::kInvalidHandle;
  });
}

int cuModuleGetFunction(Handle* function, Handle module, const char* name) {
  return Enter("cuModuleGetFunction", [&](State& state) {
    const auto found = state.images.find(ToId(module));
    fake_driver::Image& image = found == state.images.end() ? state.nothing : *found->second;
    *function = fake_driver::ToHandle(ToId(image.Find(name)));
    return *function == nullptr ? fake_driver::kNotFound : fake_driver::kSuccess;
  });
}

int cuFuncSetAttribute(Handle function, int attribute, int value) {
  return Enter("cuFuncSetAttribute", [&](State&) {
    if (attribute != fake_driver::kMaxDynamicSharedBytes) return fake_driver::kSuccess;
    if (static_cast<size_t>(value) > fake_driver::kMostSharedBytes)
      return fake_driver::kInvalidValue;
    reinterpret_cast<Function*>(function)->dynamic_bytes = static_cast<unsigned>(value);
    return fake_driver::kSuccess;
  });
}

int cuLaunchKernelEx(const LaunchConfig* config, Handle handle, void** parameters,
                     void** /*extra*/) {
  return Enter("cuLaunchKernel", [&](State& state) {
    const auto& function = *reinterpret_cast<const Function*>(handle);
    fake_driver::Work work;
    if (function.kernel != nullptr) {
      const auto [x, y, z] = config->grid;
      const auto [block_x, block_y, block_z] = config->block;
      Launched launched{
          function.kernel, {x, y, z}, {block_x, block_y, block_z}, config->shared_bytes};
      const std::string refusal = fake_driver::Refusal(launched, function);
      if (!refusal.empty()) {
        state.failure = function.name + ": " + refusal;
        return state.journal.Misuse(fake_driver::kLaunchFailed, state.failure);
      }
      launched.Copy(parameters);
      work = fake_driver::WorkOf(state, function, launched);
    }
    return state.machine.Launch(fake_driver::Current(), ToId(config->stream), function.name, work);
  });
}

int StandInLaunch(Handle stream, const std::string& name,
                  const std::function<fake_driver::Result()>& work) {
  return Enter("cuLaunchKernel", [&](State& state) {
    return state.machine.Launch(fake_driver::Current(), ToId(stream), name, [work] {
      return fake_driver::Computes() ? work() : fake_driver::kSuccess;
    });
  });
}

int cuTensorMapEncodeTiled() { return fake_driver::kNotSupported; }
