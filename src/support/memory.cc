// SPDX-License-Identifier: Apache-2.0
#include "support/memory.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <optional>

namespace tvm_ios {
namespace {

constexpr int64_t kUnlimited = std::numeric_limits<int64_t>::max();
constexpr int64_t kKibibyte = 1024;

/*! \brief Return the number at the beginning of a file, nothing if there is none, as for "max". */
std::optional<int64_t> FirstNumber(const std::string& path) {
  std::ifstream file(path);
  int64_t number = 0;
  if (file >> number) return number;
  return std::nullopt;
}

/*! \brief Return the number after a word at the beginning of a line. */
std::optional<int64_t> NumberOf(const std::string& path, const std::string& name) {
  std::ifstream file(path);
  for (std::string word; file >> word; file.ignore(kUnlimited, '\n')) {
    int64_t number = 0;
    if (word == name && file >> number) return number;
  }
  return std::nullopt;
}

int64_t LeftOnMachine() {
  const std::optional<int64_t> kibibytes = NumberOf("/proc/meminfo", "MemAvailable:");
  return kibibytes ? *kibibytes * kKibibyte : kUnlimited;
}

/*! \brief Return the memory left in a control group; its inactive file cache counts as free. */
int64_t LeftInGroup(const std::string& limit, const std::string& usage, const std::string& stat) {
  const std::optional<int64_t> most = FirstNumber(limit), used = FirstNumber(usage);
  if (!most || !used) return kUnlimited;
  return *most - *used + NumberOf(stat, "inactive_file").value_or(0);
}

int64_t LeftOfAddresses() {
  rlimit limit{};
  if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return kUnlimited;
  const int64_t most =
      static_cast<int64_t>(std::min<rlim_t>(limit.rlim_cur, static_cast<rlim_t>(kUnlimited)));
  return most - FirstNumber("/proc/self/statm").value_or(0) * sysconf(_SC_PAGESIZE);
}

int64_t ResidentMemory() {
  std::ifstream file("/proc/self/statm");
  int64_t addresses = 0, resident = 0;
  file >> addresses >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

}  // namespace

int64_t AvailableMemory() {
  const std::string second = "/sys/fs/cgroup/", first = second + "memory/";
  const int64_t least = std::min(
      {LeftOnMachine(), LeftOfAddresses(),
       LeftInGroup(second + "memory.max", second + "memory.current", second + "memory.stat"),
       LeftInGroup(first + "memory.limit_in_bytes", first + "memory.usage_in_bytes",
                   first + "memory.stat")});
  return std::max<int64_t>(least, 0);
}

MemoryBudget::MemoryBudget() : bytes_(AvailableMemory() / 4), resident_(ResidentMemory()) {}

bool MemoryBudget::IsSpent() const { return ResidentMemory() - resident_ > bytes_; }

std::string BytesText(int64_t bytes) {
  constexpr int64_t kMebibyte = kKibibyte * kKibibyte;
  return std::to_string(bytes / kMebibyte) + " MiB";
}

}  // namespace tvm_ios
