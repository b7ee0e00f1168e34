// SPDX-License-Identifier: Apache-2.0
#include "runtime/describe.h"

#include <sys/utsname.h>

#include <fstream>
#include <sstream>

#include "runtime/cores.h"

namespace tvm_ios {
namespace {

constexpr int kProtocol = 1;

}  // namespace

std::string Describe() {
  utsname names{};
  uname(&names);
  std::ostringstream text;
  text << "machine: " << names.machine << "\ncores: " << AllowedCores().size()
       << "\nprotocol: " << kProtocol << "\n";
  std::ifstream cpus("/proc/cpuinfo");
  for (std::string line; std::getline(cpus, line) && !line.empty();) text << line << "\n";
  return text.str();
}

}  // namespace tvm_ios
