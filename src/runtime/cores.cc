// SPDX-License-Identifier: Apache-2.0
#include "runtime/cores.h"

#include <sched.h>

#include <numeric>
#include <thread>

namespace tvm_ios {
namespace {

std::vector<int> Affinity() {
  std::vector<int> cores;
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) == 0) {
    for (int core = 0; core < CPU_SETSIZE; ++core) {
      if (CPU_ISSET(core, &set)) cores.push_back(core);
    }
    return cores;
  }
  // More cores than the set holds: assume that the process may use all of them.
  cores.resize(std::thread::hardware_concurrency());
  std::iota(cores.begin(), cores.end(), 0);
  return cores;
}

const std::vector<int> at_load = Affinity();

}  // namespace

const std::vector<int>& AllowedCores() { return at_load; }

}  // namespace tvm_ios
