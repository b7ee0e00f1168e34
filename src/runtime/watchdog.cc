// SPDX-License-Identifier: Apache-2.0
#include "runtime/watchdog.h"

#include <sys/time.h>
#include <tvm/ffi/error.h>
#include <unistd.h>

#include <cmath>

#include "runtime/arguments.h"

namespace tvm_ios {
namespace {

constexpr double kMicroseconds = 1e6;
constexpr double kMaxSeconds = 1e8;

void ExitOnSignal(int /*signal*/) { _exit(0); }

void SetTimer(double seconds) {
  itimerval timer{};
  timer.it_value.tv_sec = static_cast<time_t>(seconds);
  timer.it_value.tv_usec =
      static_cast<suseconds_t>((seconds - std::floor(seconds)) * kMicroseconds);
  setitimer(ITIMER_REAL, &timer, nullptr);
}

}  // namespace

Watchdog::Watchdog(double seconds) {
  TVM_IOS_REQUIRE(seconds >= 1 / kMicroseconds && seconds <= kMaxSeconds, ValueError)
      << "the time limit must be above 0 and at most " << kMaxSeconds << " seconds, got "
      << seconds;
  struct sigaction action{};
  action.sa_handler = ExitOnSignal;
  sigemptyset(&action.sa_mask);
  for (size_t i = 0; i < kSignals.size(); ++i) sigaction(kSignals[i], &action, &before_[i]);
  SetTimer(seconds);
}

Watchdog::~Watchdog() {
  SetTimer(0);
  for (size_t i = 0; i < kSignals.size(); ++i) sigaction(kSignals[i], &before_[i], nullptr);
}

}  // namespace tvm_ios
