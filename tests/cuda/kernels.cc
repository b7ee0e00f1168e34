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

namespace standin {
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
  const char* wanted = std::getenv("TVM_IOS_STANDIN_COMPUTE");
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
}  // namespace standin

using standin::Enter;
using standin::Function;
using standin::Launched;
using standin::State;
using standin::ToId;

// Memory

int cuMemAlloc_v2(void** memory, size_t bytes) {
  return Enter("cuMemAlloc", [&](State& state) {
    if (const auto unsafe = state.machine.CheckUnsafe("memory allocated")) return unsafe;
    *memory = state.memory.Allocate(bytes);
    if (*memory == nullptr) return standin::kOutOfMemory;
    state.journal.Write("allocate " + std::to_string(bytes));
    return standin::kSuccess;
  });
}

int cuMemFree_v2(void* memory) {
  return Enter("cuMemFree", [&](State& state) {
    if (const auto unsafe = state.machine.CheckUnsafe("memory freed")) return unsafe;
    if (const auto failed = state.machine.Flush()) return failed;
    if (!state.memory.Free(memory)) {
      return state.journal.Misuse(standin::kInvalidValue, "memory freed that is none");
    }
    return standin::kSuccess;
  });
}

int cuMemcpyAsync(void* to, const void* from, size_t bytes, Handle stream) {
  return Enter("cuMemcpyAsync", [&](State& state) {
    const auto copy = [=] {
      std::memmove(to, from, bytes);
      return standin::kSuccess;
    };
    const auto issued = state.machine.Launch(standin::Current(), ToId(stream), "copy", copy);
    if (issued != standin::kSuccess) return issued;
    // Of memory of the host's own, nobody waits before it is used again.
    const bool on_device = state.memory.Contains(to) && state.memory.Contains(from);
    return on_device ? standin::kSuccess : state.machine.Flush();
  });
}

int cuMemsetD8Async(void* to, unsigned char value, size_t bytes, Handle stream) {
  return Enter("cuMemsetD8Async", [&](State& state) {
    const auto set = [=] {
      std::memset(to, value, bytes);
      return standin::kSuccess;
    };
    return state.machine.Launch(standin::Current(), ToId(stream), "set", set);
  });
}

// Kernels

int cuModuleLoadData(Handle* module, const void* image) {
  return Enter("cuModuleLoadData", [&](State& state) {
    if (const auto unsafe = state.machine.CheckUnsafe("module loaded")) return unsafe;
    auto loaded = std::make_unique<standin::Image>(image);
    if (loaded->broken()) return standin::kInvalidImage;
    const standin::Id id = ToId(loaded.get());
    state.images.emplace(id, std::move(loaded));
    *module = standin::ToHandle(id);
    return standin::kSuccess;
  });
}

int cuModuleUnload(Handle module) {
  return Enter("cuModuleUnload", [&](State& state) {
    if (const auto failed = state.machine.Flush()) return failed;
    return state.images.erase(ToId(module)) == 1 ? standin::kSuccess : standin::kInvalidHandle;
  });
}

int cuModuleGetFunction(Handle* function, Handle module, const char* name) {
  return Enter("cuModuleGetFunction", [&](State& state) {
    const auto found = state.images.find(ToId(module));
    standin::Image& image = found == state.images.end() ? state.nothing : *found->second;
    *function = standin::ToHandle(ToId(image.Find(name)));
    return *function == nullptr ? standin::kNotFound : standin::kSuccess;
  });
}

int cuFuncSetAttribute(Handle function, int attribute, int value) {
  return Enter("cuFuncSetAttribute", [&](State&) {
    if (attribute != standin::kMaxDynamicSharedBytes) return standin::kSuccess;
    if (static_cast<size_t>(value) > standin::kMostSharedBytes) return standin::kInvalidValue;
    reinterpret_cast<Function*>(function)->dynamic_bytes = static_cast<unsigned>(value);
    return standin::kSuccess;
  });
}

int cuLaunchKernelEx(const LaunchConfig* config, Handle handle, void** parameters,
                     void** /*extra*/) {
  return Enter("cuLaunchKernel", [&](State& state) {
    const auto& function = *reinterpret_cast<const Function*>(handle);
    standin::Work work;
    if (function.kernel != nullptr) {
      const auto [x, y, z] = config->grid;
      const auto [block_x, block_y, block_z] = config->block;
      Launched launched{
          function.kernel, {x, y, z}, {block_x, block_y, block_z}, config->shared_bytes};
      const std::string refusal = standin::Refusal(launched, function);
      if (!refusal.empty()) {
        state.failure = function.name + ": " + refusal;
        return state.journal.Misuse(standin::kLaunchFailed, state.failure);
      }
      launched.Copy(parameters);
      work = standin::WorkOf(state, function, launched);
    }
    return state.machine.Launch(standin::Current(), ToId(config->stream), function.name, work);
  });
}

int StandInLaunch(Handle stream, const std::string& name,
                  const std::function<standin::Result()>& work) {
  return Enter("cuLaunchKernel", [&](State& state) {
    return state.machine.Launch(standin::Current(), ToId(stream), name, [work] {
      return standin::Computes() ? work() : standin::kSuccess;
    });
  });
}

int cuTensorMapEncodeTiled() { return standin::kNotSupported; }
