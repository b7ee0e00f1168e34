// SPDX-License-Identifier: Apache-2.0
#include "runtime/describe.h"

#include <sys/utsname.h>

#include <fstream>
#include <sstream>

#include "runtime/cores.h"

namespace tvm_ios {
namespace {

constexpr int kProtocol = 1;

std::string FirstLine(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

/*! \brief Return lines such as "L1d: 48K", one for each cache of the first core. */
std::string Caches() {
  std::ostringstream text;
  for (int i = 0;; ++i) {
    const std::string cache = "/sys/devices/system/cpu/cpu0/cache/index" + std::to_string(i) + "/";
    const std::string level = FirstLine(cache + "level"), type = FirstLine(cache + "type");
    if (level.empty()) return text.str();
    const char* kind = type == "Data" ? "d" : type == "Instruction" ? "i" : "";
    text << "L" << level << kind << ": " << FirstLine(cache + "size") << "\n";
  }
}

}  // namespace

std::string Describe() {
  utsname names{};
  uname(&names);
  std::ostringstream text;
  text << "machine: " << names.machine << "\ncores: " << AllowedCores().size()
       << "\nprotocol: " << kProtocol << "\n"
       << Caches();
  std::ifstream cpus("/proc/cpuinfo");
  for (std::string line; std::getline(cpus, line) && !line.empty();) text << line << "\n";
  return text.str();
}

}  // namespace tvm_ios
