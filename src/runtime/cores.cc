// SPDX-License-Identifier: Apache-2.0
#include "runtime/cores.h"

#include <sched.h>
#ifdef __linux__
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#endif

#include <fstream>
#include <numeric>
#include <sstream>
#include <string>
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

namespace {

/*! \brief Move a thread, 0 for the calling one, to a core on which it may run. */
void MoveTo(int core, pid_t thread) {
  cpu_set_t allowed;
  if (core < 0 || core >= CPU_SETSIZE) return;
  if (sched_getaffinity(thread, sizeof(allowed), &allowed) != 0) return;
  if (!CPU_ISSET(core, &allowed)) return;
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(core, &one);
  sched_setaffinity(thread, sizeof(one), &one);
  sched_setaffinity(thread, sizeof(allowed), &allowed);
}

/*! \brief Return the core on which a thread of this process has run last, -1 if unknown. */
int CoreOf(int32_t thread) {
  constexpr int kProcessor = 39;  // the field of that number, as proc(5) counts
  std::ifstream file("/proc/self/task/" + std::to_string(thread) + "/stat");
  std::string line;
  std::getline(file, line);
  // The second field is a name, which may have spaces and parentheses.
  std::istringstream fields(line.substr(line.rfind(')') + 1));
  std::string skipped;
  for (int number = 3; number < kProcessor; ++number) fields >> skipped;
  int core = -1;
  return fields >> core ? core : -1;
}

}  // namespace

int32_t CurrentThread() { return static_cast<int32_t>(syscall(SYS_gettid)); }

int64_t ProcessorTime(int32_t thread) {
  // As pthread_getcpuclockid encodes it; a thread that has ended is an error, not undefined.
  constexpr uint32_t kThreadClock = 6;
  const auto clock = static_cast<clockid_t>(~static_cast<uint32_t>(thread) << 3 | kThreadClock);
  timespec time{};
  if (clock_gettime(clock, &time) != 0) return -1;
  return time.tv_sec * int64_t{1000000000} + time.tv_nsec;
}

void SwapCores(int32_t thread) {
  const int own = sched_getcpu();
  const int core = CoreOf(thread);
  if (core == own) return;  // it runs as soon as the calling thread sleeps
  MoveTo(own, thread);
  MoveTo(core, 0);
}

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
int32_t CurrentThread() { return 0; }
int64_t ProcessorTime(int32_t /*thread*/) { return -1; }
void SwapCores(int32_t /*thread*/) {}

#endif

}  // namespace tvm_ios
