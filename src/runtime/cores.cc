// SPDX-License-Identifier: Apache-2.0
#include "runtime/cores.h"

#include <sched.h>

#include <numeric>
#include <thread>

namespace tvm_ios {

std::vector<int> CoresOfThread() {
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

namespace {

const std::vector<int> at_load = CoresOfThread();

}  // namespace

const std::vector<int>& AllowedCores() { return at_load; }

#ifdef __linux__

int CurrentCore() { return sched_getcpu(); }

void LeaveCore(int core) {
  if (core < 0 || core >= CPU_SETSIZE || sched_getcpu() != core) return;
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof(allowed), &allowed) != 0) return;
  cpu_set_t others = allowed;
  CPU_CLR(core, &others);
  if (CPU_COUNT(&others) == 0) return;
  sched_setaffinity(0, sizeof(others), &others);
  sched_setaffinity(0, sizeof(allowed), &allowed);
}

#else

int CurrentCore() { return -1; }
void LeaveCore(int /*core*/) {}

#endif

}  // namespace tvm_ios
