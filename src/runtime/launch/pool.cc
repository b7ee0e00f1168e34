// SPDX-License-Identifier: Apache-2.0
#include "runtime/launch/pool.h"

#include <pthread.h>

#include <algorithm>
#include <system_error>

#include "runtime/cores.h"
#include "runtime/launch/call_choice.h"
#include "runtime/launch/clock.h"

namespace tvm_ios {
namespace {

/*! \brief A thread that lost its core is away for about so long. */
constexpr int64_t kTimeSlice = 4000000;
/*! \brief Callers that took all cores at once will soon do so again. */
constexpr int64_t kCrowded = 5000000;
/*! \brief How often a thread looks up on which cores it may run. */
constexpr int64_t kAffinityAge = 10000000;

std::atomic<HelperPool*> of_process{nullptr};
std::atomic<int64_t> num_pools{0};
/*! \brief What the first pool of the process may use: of one that was forked, what its parent may.
 */
std::atomic<int32_t> threads_at_first{0};

/*! \brief Forget the pool in a process that was forked, which has none of its threads. */
void ForgetPool() {
  const HelperPool* parent = of_process.exchange(nullptr);
  if (parent != nullptr) threads_at_first.store(parent->max_threads());
}

/*! \brief Return the number of cores on which this thread may run. */
int32_t NumAllowedCores(int64_t now) {
  thread_local int64_t known_until = 0;
  thread_local int32_t known = 1;
  if (now >= known_until) {
    known = static_cast<int32_t>(CoresOfThread().size());
    known_until = now + kAffinityAge;
  }
  return known;
}

/*! \brief Lets a thread that is cancelled finish first: others wait for what it has claimed. */
class CancelledLater {
 public:
  CancelledLater() { pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before_); }
  ~CancelledLater() { pthread_setcancelstate(before_, nullptr); }
  CancelledLater(const CancelledLater&) = delete;
  CancelledLater& operator=(const CancelledLater&) = delete;

 private:
  int before_;
};

}  // namespace

/*! \brief The launch that a thread uses again and again. */
class LaunchOfThread {
 public:
  ~LaunchOfThread() {
    HelperPool* pool = of_process.load();
    if (pool != nullptr && pool_ == pool->id_) pool->GiveBack(launch_);
  }

  /*! \brief Count this thread among those that call, and return their number. */
  int32_t Count(RecentCallers* callers, int64_t now) { return callers->Count(now, &counted_); }

  int32_t thread() const { return thread_; }

  Launch* Get(HelperPool* pool) {
    const bool known = pool_ == pool->id_;
    if (!known) {
      counted_ = -1;
      thread_ = CurrentThread();  // of a process that was forked, another one
    }
    if (known && launch_->guests.load(std::memory_order_acquire) == 0) return launch_;
    Launch* before = known ? launch_ : nullptr;
    launch_ = pool->Take();
    pool_ = pool->id_;
    if (before != nullptr) pool->GiveBack(before);
    return launch_;
  }

 private:
  int64_t pool_{-1};  // its id
  int64_t counted_{-1};
  int32_t thread_{0};
  Launch* launch_{nullptr};
};

HelperPool::HelperPool(int32_t max_threads) : id_(num_pools++), max_threads_(max_threads) {}

HelperPool& HelperPool::Get() {
  static const int at_fork = pthread_atfork(nullptr, nullptr, ForgetPool);
  static_cast<void>(at_fork);
  HelperPool* pool = of_process.load(std::memory_order_acquire);
  if (pool != nullptr) return *pool;
  const int32_t inherited = threads_at_first.load();
  const auto cores = static_cast<int32_t>(AllowedCores().size());
  auto made = std::make_unique<HelperPool>(inherited > 0 ? inherited : cores);
  if (of_process.compare_exchange_strong(pool, made.get())) pool = made.release();
  return *pool;
}

int32_t HelperPool::Run(const ClaimProgram* program, void** arguments) {
  thread_local LaunchOfThread of_thread;
  const CancelledLater cancelled_later;
  Launch* launch = of_thread.Get(this);
  const int64_t begin = Now();
  const int32_t recent = of_thread.Count(&recent_callers_, begin);
  const int32_t callers = std::max(recent, callers_.fetch_add(1, std::memory_order_relaxed) + 1);
  CallHistory* history = program->history;
  int32_t num_helpers = NumHelpers(program->num_columns, callers, begin);
  if (num_helpers > 0 && history != nullptr && !ChooseHelpers(history, begin)) num_helpers = 0;
  launch->is_short = history != nullptr && UsualDuration(*history) < kTimeSlice;
  launch->program.store(program, std::memory_order_relaxed);
  launch->claims.Begin(program, arguments);
  const int32_t invited = num_helpers > 0 ? Invite(launch, num_helpers, begin) : 0;
  if (invited == 0) launch->claims.StayAlone();
  launch->claims.Work(0, true, of_thread.thread());
  callers_.fetch_sub(1, std::memory_order_relaxed);
  const int64_t end = Now();
  if (invited > 0) Dismiss(launch, begin, end);
  if (history != nullptr && program->num_columns > 1) NoteCall(history, invited > 0, end - begin);
  if (program->num_columns > 1) Count(*program, invited > 0, launch->claims);
  return launch->claims.error();
}

void HelperPool::Count(const ClaimProgram& program, bool helped, const Claims& claims) {
  launched_.fetch_add(1, std::memory_order_relaxed);
  if (!helped) return;
  helped_.fetch_add(1, std::memory_order_relaxed);
  units_.fetch_add(program.num_units(), std::memory_order_relaxed);
  stolen_.fetch_add(claims.stolen(), std::memory_order_relaxed);
  lent_.fetch_add(claims.lent(), std::memory_order_relaxed);
}

HelperCounts HelperPool::counts() const {
  return {launched_.load(), helped_.load(), units_.load(), stolen_.load(), lent_.load()};
}

int32_t HelperPool::NumHelpers(int32_t num_columns, int32_t callers, int64_t now) {
  if (num_columns == 1) return 0;
  const int32_t threads = std::min(max_threads(), NumAllowedCores(now));
  const int32_t free = threads - callers;
  if (free <= 0) {
    if (threads > 1) {
      crowded_until_.store(now + kCrowded, std::memory_order_relaxed);
      crowded_.store(true, std::memory_order_relaxed);
    }
    return 0;
  }
  if (crowded_.load(std::memory_order_relaxed)) {
    if (now < crowded_until_.load(std::memory_order_relaxed)) return 0;
    crowded_.store(false, std::memory_order_relaxed);
  }
  return std::min(num_columns - 1, free);
}

int32_t HelperPool::Invite(Launch* launch, int32_t num_helpers, int64_t now) {
  launch->caller_core = CurrentCore();
  launch->seats.clear();
  launch->seats.reserve(num_helpers);  // invitations point to them
  const int32_t size = max_threads() - 1;
  for (int32_t number = 0; number < size && num_helpers > 0; ++number) {
    Helper* helper = At(number);
    if (helper == nullptr) break;
    const auto column = static_cast<int32_t>(launch->seats.size()) + 1;
    launch->seats.push_back({launch, column, helper});
    launch->guests.fetch_add(1, std::memory_order_relaxed);
    if (helper->Invite(&launch->seats.back(), now)) {
      --num_helpers;
    } else {
      launch->guests.fetch_sub(1, std::memory_order_relaxed);
      launch->seats.pop_back();
    }
  }
  return static_cast<int32_t>(launch->seats.size());
}

void HelperPool::Dismiss(Launch* launch, int64_t begin, int64_t end) {
  for (Launch::Seat& seat : launch->seats) {
    if (seat.helper->Withdraw(&seat, begin, end)) {
      launch->guests.fetch_sub(1, std::memory_order_release);
    }
  }
}

Helper* HelperPool::At(int32_t number) {
  Helper* helper = helpers_[number].load(std::memory_order_acquire);
  if (helper != nullptr) return helper;
  const std::lock_guard<std::mutex> lock(mutex_);
  helper = helpers_[number].load(std::memory_order_relaxed);
  if (helper != nullptr) return helper;
  try {
    created_.push_back(std::make_unique<Helper>(&crowded_));
  } catch (const std::system_error&) {
    return nullptr;  // the process may not start more threads: callers compute alone
  }
  helpers_[number].store(created_.back().get(), std::memory_order_release);
  return created_.back().get();
}

Launch* HelperPool::Take() {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto unused = std::find_if(free_.begin(), free_.end(), [](const Launch* launch) {
    return launch->guests.load(std::memory_order_acquire) == 0;
  });
  if (unused == free_.end()) {
    launches_.push_back(std::make_unique<Launch>());
    return launches_.back().get();
  }
  Launch* launch = *unused;
  free_.erase(unused);
  return launch;
}

void HelperPool::GiveBack(Launch* launch) {
  const std::lock_guard<std::mutex> lock(mutex_);
  free_.push_back(launch);
}

void HelperPool::WaitForGuests(const ClaimProgram* program) {
  const std::lock_guard<std::mutex> lock(mutex_);
  for (const std::unique_ptr<Launch>& launch : launches_) {
    if (launch->program.load(std::memory_order_relaxed) != program) continue;
    while (launch->guests.load(std::memory_order_acquire) > 0) std::this_thread::yield();
  }
}

}  // namespace tvm_ios
