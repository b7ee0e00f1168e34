// SPDX-License-Identifier: Apache-2.0
#include "runtime/describe.h"

#include <sched.h>
#include <sys/utsname.h>

#include <fstream>
#include <sstream>
#include <thread>

namespace tvm_ios {
namespace {

constexpr int kProtocol = 1;

unsigned NumCores() {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  if (sched_getaffinity(0, sizeof(cores), &cores) == 0) return CPU_COUNT(&cores);
  return std::thread::hardware_concurrency();
}

}  // namespace

std::string Describe() {
  utsname names{};
  uname(&names);
  std::ostringstream text;
  text << "machine: " << names.machine << "\ncores: " << NumCores() << "\nprotocol: " << kProtocol
       << "\n";
  std::ifstream cpus("/proc/cpuinfo");
  for (std::string line; std::getline(cpus, line) && !line.empty();) text << line << "\n";
  return text.str();
}

}  // namespace tvm_ios
