// SPDX-License-Identifier: Apache-2.0
#include "runtime/workers.h"

#include <tvm/ffi/container/array.h>
#include <tvm/ffi/function.h>
#include <tvm/ffi/string.h>

#include <string>
#include <vector>

#include "runtime/arguments.h"
#include "runtime/cores.h"
#include "runtime/cpu_stage.h"

namespace tvm_ios {

namespace ffi = ::tvm::ffi;

int64_t SetNumThreads(int64_t workers) {
  CheckRange(workers, 1, CpuStage::kMaxWorkers, "the number of workers");
  static const ffi::Function configure =
      ffi::Function::GetGlobalRequired("runtime.config_threadpool");
  static const ffi::Function num_threads = ffi::Function::GetGlobalRequired("runtime.NumThreads");
  constexpr int kShareAllCores = -3;  // ThreadGroup::kSpecifyThreadShareAllCore
  ffi::Array<ffi::String> cores;
  const std::vector<int>& allowed = AllowedCores();
  for (int64_t i = 0; i < workers; ++i) {
    cores.push_back(std::to_string(allowed[i % allowed.size()]));
  }
  configure(kShareAllCores, workers, cores);
  return num_threads().cast<int64_t>();
}

}  // namespace tvm_ios
