// SPDX-License-Identifier: Apache-2.0
#include "cuda/journal.h"

#include <cstdlib>
#include <sstream>

namespace fake_driver {

void Journal::Write(const std::string& what) {
  const int number = static_cast<int>(threads_.size()) + 1;
  const auto thread = threads_.emplace(std::this_thread::get_id(), number).first;
  text_ += std::to_string(thread->second) + ": " + what + "\n";
}

Result Journal::Misuse(Result result, const std::string& what) {
  Write("misuse: " + what);
  return result;
}

Result Journal::Fault(const char* function) {
  const int call = ++calls_[function];
  const char* wanted = std::getenv("TVM_IOS_FAKE_DRIVER_FAIL");
  if (wanted == nullptr) return kSuccess;
  std::istringstream fields(wanted);
  std::string name, number, result;
  std::getline(fields, name, ':');
  std::getline(fields, number, ':');
  std::getline(fields, result);
  if (name != function || std::stoi(number) != call) return kSuccess;
  Write(std::string("fail ") + function);
  return static_cast<Result>(std::stoi(result));
}

void Journal::Clear() {
  text_.clear();
  threads_.clear();
  calls_.clear();
}

}  // namespace fake_driver
