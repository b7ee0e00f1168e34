// SPDX-License-Identifier: Apache-2.0
#include "runtime/parallel_api.h"

#include <dlfcn.h>
#include <tvm/ffi/error.h>

#include <memory>

#include "runtime/arguments.h"

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

}  // namespace tvm_ios
