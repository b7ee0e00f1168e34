// SPDX-License-Identifier: Apache-2.0
#include "runtime/parallel_api.h"

#include <dlfcn.h>
#include <tvm/ffi/error.h>

#include <memory>
#include <thread>

#include "runtime/arguments.h"
#include "runtime/core_claims.h"

namespace tvm_ios {
namespace {

struct LibraryCloser {
  void operator()(void* handle) const { dlclose(handle); }
};

/*! \brief The functions together with their library. */
struct LoadedApi {
  std::unique_ptr<void, LibraryCloser> library;
  ParallelApi api;
};

LoadedApi& Loaded() {
  static LoadedApi loaded{nullptr, {nullptr, nullptr}};
  return loaded;
}

template <typename Function>
Function Find(void* library, const char* name) {
  void* symbol = dlsym(library, name);
  TVM_IOS_REQUIRE(symbol != nullptr, ValueError)
      << "the library is not a TVM runtime: it has no " << name;
  return reinterpret_cast<Function>(symbol);
}

/*! \brief A launch whose tasks claim distinct cores before they start. */
struct DistinctLaunch {
  ParallelApi::Task task;
  void* data;
  CoreClaims claims;

  static int Enter(int number, ParallelGroupEnv* env, void* self) {
    auto* launch = static_cast<DistinctLaunch*>(self);
    if (number == 0) {
      std::this_thread::yield();  // a worker that waits for this core can leave it
    } else {
      launch->claims.ClaimDistinct();
    }
    return launch->task(number, env, launch->data);
  }
};

}  // namespace

void ParallelApi::Load(const std::string& path) {
  // NOLOAD: a second copy of the runtime would have a second thread pool.
  std::unique_ptr<void, LibraryCloser> library(dlopen(path.c_str(), RTLD_NOW | RTLD_NOLOAD));
  TVM_IOS_REQUIRE(library != nullptr, ValueError)
      << path << " is not loaded; import tvm before this call";
  const ParallelApi api{
      Find<decltype(ParallelApi::launch)>(library.get(), "TVMBackendParallelLaunch"),
      Find<decltype(ParallelApi::barrier)>(library.get(), "TVMBackendParallelBarrier")};
  Loaded() = {std::move(library), api};
}

const ParallelApi& ParallelApi::Get() {
  const ParallelApi& api = Loaded().api;
  TVM_IOS_REQUIRE(api.launch != nullptr, RuntimeError)
      << "several workers need TVM's thread pool; call tvm_ios.runtime.SetRuntimeLibrary first";
  return api;
}

int ParallelApi::LaunchOnDistinctCores(Task task, void* data, int num_task) const {
  DistinctLaunch distinct{task, data, {}};
  distinct.claims.Claim();
  return launch(DistinctLaunch::Enter, &distinct, num_task);
}

}  // namespace tvm_ios
