// SPDX-License-Identifier: Apache-2.0
#include "runtime/launch/helper.h"

#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>

#include "runtime/cores.h"
#include "runtime/launch/clock.h"
#include "runtime/launch/futex.h"

namespace tvm_ios {
namespace {

/*! \brief How long a helper looks for work: longer than it takes to wake it, or a call to follow.
 */
constexpr int64_t kSpin = 100000;
constexpr int kLooks = 32;
constexpr std::chrono::seconds kSleep{1};
/*! \brief A launch that takes so long is noticed by every helper that has a core. */
constexpr int64_t kNoticed = 20000;
constexpr int64_t kNoticedAsleep = 500000;
/*! \brief Another program takes a core for milliseconds, the system itself for less. */
constexpr int64_t kLost = 500000;
/*! \brief The first and the longest rest of a helper that lost its core. */
constexpr int64_t kShortestRest = 2000000;
constexpr int64_t kLongestRest = 64000000;

/*! \brief What a thread has used until now. */
struct Usage {
  int64_t wall;
  int64_t processor;
  int64_t losses;  // how often the system took it off its core
  int64_t sleeps;
};

Usage UsageOfThread() {
#ifdef RUSAGE_THREAD
  rusage usage{};
  if (getrusage(RUSAGE_THREAD, &usage) == 0) {
    const int64_t seconds = usage.ru_utime.tv_sec + usage.ru_stime.tv_sec;
    const int64_t rest = usage.ru_utime.tv_usec + usage.ru_stime.tv_usec;
    return {Now(), seconds * 1000000000 + rest * 1000, usage.ru_nivcsw, usage.ru_nvcsw};
  }
#endif
  return {0, 0, 0, 0};
}

/*! \brief Return whether a thread that did not sleep was off its core for long. */
bool LostItsCore(const Usage& before, const Usage& after) {
  const int64_t away = after.wall - before.wall - (after.processor - before.processor);
  return after.losses != before.losses && after.sleeps == before.sleeps && away > kLost;
}

/*!
 * \brief Create a thread to which the process's signals are not delivered.
 *
 * Handlers of what an instruction of its own causes, such as a crash report's, run on it.
 */
template <typename Body>
std::thread ThreadWithoutSignals(Body body) {
  sigset_t blocked;
  sigset_t before;
  sigfillset(&blocked);
  for (const int caused : {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP, SIGSYS}) {
    sigdelset(&blocked, caused);
  }
  pthread_sigmask(SIG_SETMASK, &blocked, &before);
  std::thread thread(std::move(body));
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return thread;
}

}  // namespace

Launch::Seat Helper::busy_{};

Helper::Helper(const std::atomic<bool>* crowded)
    : crowded_(crowded), thread_(ThreadWithoutSignals([this] { Loop(); })) {}

Helper::~Helper() {
  ends_.store(true, std::memory_order_seq_cst);
  asleep_.store(0, std::memory_order_seq_cst);
  FutexWakeAll(&asleep_);
  thread_.join();
}

bool Helper::Invite(Launch::Seat* seat, int64_t now) {
  if (rests_until_.load(std::memory_order_relaxed) > now) return false;
  Launch::Seat* nothing = nullptr;
  if (invitation_.load(std::memory_order_relaxed) != nullptr) return false;
  // Sequentially consistent, as in WaitForInvitation: one of the two sees what the other one wrote.
  if (!invitation_.compare_exchange_strong(nothing, seat, std::memory_order_seq_cst)) return false;
  const bool asleep = asleep_.exchange(0, std::memory_order_seq_cst) != 0;
  woken_.store(asleep, std::memory_order_relaxed);
  if (asleep) FutexWakeAll(&asleep_);
  return true;
}

bool Helper::Withdraw(Launch::Seat* seat, int64_t begin, int64_t end) {
  Launch::Seat* expected = seat;
  if (!invitation_.compare_exchange_strong(expected, nullptr, std::memory_order_acq_rel)) {
    return false;
  }
  const bool woken = woken_.load(std::memory_order_relaxed);
  if (end - begin > (woken ? kNoticedAsleep : kNoticed)) Rest(end);
  return true;
}

void Helper::Loop() {
  const int32_t thread = CurrentThread();
  while (!ends_.load(std::memory_order_relaxed)) {
    WaitForInvitation();
    Launch::Seat* seat = invitation_.load(std::memory_order_acquire);
    if (seat == nullptr) continue;
    if (invitation_.compare_exchange_strong(seat, &busy_, std::memory_order_acq_rel)) {
      Join(seat, thread);
    }
  }
}

void Helper::WaitForInvitation() {
  const int64_t begin = Now();
  for (int looks = 1;; ++looks) {
    if (invitation_.load(std::memory_order_acquire) != nullptr) return;
    Pause();
    if (looks % kLooks == 0 && (crowded_->load(std::memory_order_relaxed) || Now() - begin > kSpin))
      break;
  }
  asleep_.store(1, std::memory_order_seq_cst);
  const bool needed = invitation_.load(std::memory_order_seq_cst) != nullptr ||
                      ends_.load(std::memory_order_seq_cst);
  if (!needed) FutexWait(&asleep_, 1, kSleep);
  asleep_.store(0, std::memory_order_seq_cst);
}

void Helper::Join(Launch::Seat* seat, int32_t thread) {
  Launch* launch = seat->launch;
  const bool is_short = launch->is_short;
  LeaveCore(launch->caller_core);
  const Usage before = is_short ? UsageOfThread() : Usage{};
  launch->claims.Work(seat->column, false, thread);
  launch->guests.fetch_sub(1, std::memory_order_release);
  invitation_.store(nullptr, std::memory_order_release);  // first: the next call may follow at once
  // A wait for a thread that lost its core takes longer than all of a short launch.
  if (is_short && LostItsCore(before, UsageOfThread())) Rest(Now());
}

void Helper::Rest(int64_t now) {
  // A loss long after the last rest is the first one again.
  const int64_t last = rests_until_.load(std::memory_order_relaxed);
  const int64_t before = rest_.load(std::memory_order_relaxed);
  const bool again = now - last < 4 * before;
  const int64_t rest = again ? std::min(2 * before, kLongestRest) : kShortestRest;
  rest_.store(rest, std::memory_order_relaxed);
  rests_until_.store(now + rest, std::memory_order_relaxed);
}

}  // namespace tvm_ios
