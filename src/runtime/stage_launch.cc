// SPDX-License-Identifier: Apache-2.0
#include "runtime/stage_launch.h"

#include <algorithm>
#include <chrono>

#include "runtime/cores.h"
#include "runtime/launch/futex.h"
#include "runtime/launch/pool.h"
#include "runtime/reference_speed.h"

namespace tvm_ios {
namespace {

using Clock = std::chrono::steady_clock;

/*! \brief Together longer than the first rest of a helper that lost its core. */
constexpr int kTries = 10;
/*! \brief Enough to wake a helper, and less than it takes to believe that it lost its core. */
constexpr std::chrono::microseconds kPatience{400};

constexpr std::chrono::microseconds kCheckEvery{100};  // a preemption takes milliseconds

std::atomic<int64_t> num_launches{0};

/*! \brief What a thread knows of its preemptions in the launch that it was in last. */
struct Watch {
  int64_t launch{-1};
  int32_t since_stage{0};
  int64_t preemptions{0};
  Clock::time_point checked;
};

thread_local Watch watch;

int32_t RunOnHelpers(const ClaimProgram* program, void** arguments) {
  HelperPool& pool = HelperPool::Get();
  const int32_t error = pool.Run(program, arguments);
  pool.WaitForGuests(program);  // the tables end before they would have left
  return error;
}

int32_t RunHere(const ClaimProgram* program, void** arguments) {
  Claims claims;
  claims.Begin(program, arguments);
  claims.StayAlone();
  claims.Work(0, true);
  return claims.error();
}

}  // namespace

Gathering::Gathering(int64_t num_columns) : expected_(static_cast<int32_t>(num_columns)) {
  if (num_columns == 1) return;
  const auto cores = static_cast<int32_t>(CoresOfThread().size());
  expected_ = std::min({expected_, HelperPool::Get().max_threads(), cores});
}

int32_t Gathering::Run(const ClaimProgram* program, void* self) {
  void* arguments[] = {self};
  if (program->num_columns == 1) return RunHere(program, arguments);
  int32_t error = kAgain;
  for (int number = 1; error == kAgain; ++number) {
    last_try_ = number == kTries;
    come_.store(0, std::memory_order_relaxed);
    incomplete_.store(false, std::memory_order_relaxed);
    error = RunOnHelpers(program, arguments);
  }
  return error;
}

int32_t Gathering::Meet() {
  come_.fetch_add(1, std::memory_order_relaxed);
  const Clock::time_point begin = Clock::now();
  while (come_.load(std::memory_order_relaxed) < expected_) {
    if (incomplete_.load(std::memory_order_relaxed)) break;
    if (Clock::now() - begin > kPatience) incomplete_.store(true, std::memory_order_relaxed);
    Pause();
  }
  return incomplete() && !last_try_ ? kAgain : 0;
}

PreemptionLog::PreemptionLog(size_t num_stages) : launch_(num_launches++), stages_(num_stages) {}

void PreemptionLog::Begin() const { watch = {launch_, 0, NumPreemptions(), Clock::now()}; }

void PreemptionLog::Enter(int32_t stage) const {
  if (watch.launch != launch_) watch = {launch_, stage, NumPreemptions(), Clock::now()};
}

void PreemptionLog::Leave(int32_t stage, bool last) {
  const Clock::time_point now = Clock::now();
  if (!last && now - watch.checked < kCheckEvery) return;
  const int64_t preemptions = NumPreemptions();
  for (int32_t s = watch.since_stage; preemptions != watch.preemptions && s <= stage; ++s) {
    stages_[s].store(true, std::memory_order_relaxed);
  }
  watch = {launch_, stage, preemptions, now};
}

}  // namespace tvm_ios
