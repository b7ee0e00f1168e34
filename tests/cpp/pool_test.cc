// SPDX-License-Identifier: Apache-2.0
#include "runtime/launch/pool.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <new>
#include <thread>
#include <vector>

#include "claims_support.h"
#include "runtime/launch/call_choice.h"
#include "runtime/launch/recent_callers.h"

namespace tvm_ios {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

constexpr int64_t kMicrosecond = 1000;
constexpr int64_t kSecond = 1000000000;

class Fixture {
 public:
  explicit Fixture(uint32_t seed, int32_t columns = 4) : program_(columns) {
    std::mt19937 random(seed);
    FillRandomly(&random, columns, 10, &program_);
    program_.Finish(RunTestUnits);
  }

  std::vector<uint32_t> Run(HelperPool* pool) {
    void* arguments[] = {&program_};
    EXPECT_EQ(pool->Run(program_.program(), arguments), 0);
    pool->WaitForGuests(program_.program());
    return program_.values;
  }

  TestProgram program_;
};

TEST(HelperPool, RunsManyLaunches) {
  HelperPool alone(1);
  HelperPool pool(3);
  for (uint32_t seed = 0; seed < 20; ++seed) {
    const std::vector<uint32_t> expected = Fixture(seed).Run(&alone);
    Fixture fixture(seed);
    for (int i = 0; i < 20; ++i) {
      if (i % 7 == 0) std::this_thread::sleep_for(microseconds(300));  // helpers fall asleep
      ASSERT_EQ(fixture.Run(&pool), expected);
    }
  }
}

TEST(HelperPool, ServesSeveralCallers) {
  HelperPool alone(1);
  HelperPool pool(4);
  std::vector<std::thread> callers;
  for (uint32_t seed = 0; seed < 4; ++seed) {
    callers.emplace_back([&, seed] {
      const std::vector<uint32_t> expected = Fixture(seed).Run(&alone);
      for (int i = 0; i < 50; ++i) {
        Fixture fixture(seed);
        fixture.program_.delays = i % 5;
        ASSERT_EQ(fixture.Run(&pool), expected);
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
}

TEST(HelperPool, NobodyWaitsForABusyHelper) {
  HelperPool pool(2);
  struct Blocked {
    std::atomic<int> entered{0};
    std::atomic<bool> release{false};
  } blocked;
  TestProgram first(2);
  first.Add(0, 1, false, {});
  first.Add(1, 1, false, {});
  first.Finish([](void** arguments, int32_t, int32_t, int32_t) {
    auto* state = static_cast<Blocked*>(arguments[0]);
    state->entered.fetch_add(1);
    while (!state->release.load()) std::this_thread::sleep_for(milliseconds(1));
    return 0;
  });
  std::thread caller([&] {
    void* arguments[] = {&blocked};
    pool.Run(first.program(), arguments);
    pool.WaitForGuests(first.program());
  });
  while (blocked.entered.load() == 0) std::this_thread::yield();
  Fixture second(3);
  const std::vector<uint32_t> result = second.Run(&pool);  // returns before the first one
  EXPECT_FALSE(blocked.release.load());
  blocked.release = true;
  caller.join();
  HelperPool alone(1);
  EXPECT_EQ(result, Fixture(3).Run(&alone));
}

TEST(HelperPool, AFailureIsReturned) {
  HelperPool pool(2);
  TestProgram program(2);
  program.Add(0, 3, false, {});
  program.Add(1, 3, false, {});
  program.Finish([](void**, int32_t, int32_t, int32_t) { return 5; });
  void* arguments[] = {nullptr};
  EXPECT_EQ(pool.Run(program.program(), arguments), 5);
  pool.WaitForGuests(program.program());
}

TEST(HelperPool, AnExceptionIsAFailure) {
  HelperPool pool(2);
  TestProgram program(2);
  program.Add(0, 1, false, {});
  program.Add(1, 8, false, {});
  program.Finish([](void** arguments, int32_t, int32_t, int32_t) -> int32_t {
    const auto* caller = static_cast<std::thread::id*>(arguments[0]);
    std::this_thread::sleep_for(microseconds(200));  // long enough for the helper to come
    if (std::this_thread::get_id() != *caller) throw std::bad_alloc();
    return 0;
  });
  std::thread::id self = std::this_thread::get_id();
  void* arguments[] = {&self};
  int failures = 0;
  for (int i = 0; i < 100 && failures == 0; ++i) {
    if (pool.Run(program.program(), arguments) != 0) ++failures;
  }
  pool.WaitForGuests(program.program());
  EXPECT_EQ(failures, 1);
}

TEST(HelperPool, ACancelledCallerEndsAfterItsLaunch) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "AddressSanitizer takes the stack of a cancelled thread for one in use";
#endif
  static std::atomic<bool> began;
  began = false;
  HelperPool pool(2);
  TestProgram program(2);
  for (int i = 0; i < 20; ++i) {
    program.Add(0, 2, false, {});
    program.Add(1, 2, false, {});
  }
  program.Finish([](void** arguments, int32_t begin, int32_t end, int32_t) -> int32_t {
    began = true;
    std::this_thread::sleep_for(milliseconds(1));  // where POSIX cancels threads
    return RunTestUnits(arguments, begin, end, 0);
  });
  std::thread caller([&] {
    void* arguments[] = {&program};
    pool.Run(program.program(), arguments);
    while (true) std::this_thread::sleep_for(milliseconds(1));
  });
  while (!began.load()) std::this_thread::yield();
  ASSERT_EQ(pthread_cancel(caller.native_handle()), 0);
  caller.join();
  pool.WaitForGuests(program.program());
  ExpectEachOnce(program);
  HelperPool alone(1);
  EXPECT_EQ(Fixture(3).Run(&pool), Fixture(3).Run(&alone));
}

TEST(HelperPool, HandlersOfFaultsRunOnHelpers) {
  // Emulators of instructions and reports of crashes depend on it.
  static std::atomic<int> faults{0};
  struct sigaction before{};
  struct sigaction action{};
  action.sa_handler = [](int) { faults.fetch_add(1); };
  ASSERT_EQ(sigaction(SIGILL, &action, &before), 0);
  HelperPool pool(2);
  TestProgram program(2);
  program.Add(0, 1, false, {});
  program.Add(1, 1, false, {});
  program.Finish([](void** arguments, int32_t, int32_t, int32_t) {
    auto* caller = static_cast<std::thread::id*>(arguments[0]);
    if (std::this_thread::get_id() == *caller) {
      std::this_thread::sleep_for(milliseconds(1));  // let the helper take the other one
    } else {
      pthread_kill(pthread_self(), SIGILL);
    }
    return 0;
  });
  std::thread::id self = std::this_thread::get_id();
  void* arguments[] = {&self};
  for (int i = 0; i < 1000 && faults.load() == 0; ++i) {
    EXPECT_EQ(pool.Run(program.program(), arguments), 0);
  }
  pool.WaitForGuests(program.program());
  sigaction(SIGILL, &before, nullptr);
  EXPECT_GT(faults.load(), 0);
}

TEST(HelperPool, AForkedProcessUsesNoMoreThreads) {
  HelperPool::Get().SetMaxThreads(3);
  const pid_t child = fork();
  if (child == 0) _exit(HelperPool::Get().max_threads());
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 3);
}

/*! \brief Run a program 400 times, by two threads in turns; return how often it had helpers. */
int64_t HelpedTurns(HelperPool* pool) {
  const std::vector<uint32_t> expected = Fixture(1).Run(pool);
  const int64_t before = pool->counts().helped;
  std::atomic<int64_t> turns{0};
  const auto take_turns = [&](int64_t own) {
    for (int64_t turn = turns.load(); turn < 400; turn = turns.load()) {
      if (turn % 2 != own) {
        std::this_thread::sleep_for(microseconds(20));
        continue;
      }
      EXPECT_EQ(Fixture(1).Run(pool), expected);
      ++turns;
    }
  };
  std::thread other(take_turns, 1);
  take_turns(0);
  other.join();
  return pool->counts().helped - before;
}

TEST(HelperPool, CallersThatTakeTurnsHaveNoHelpersIfTheyNeedAllCores) {
  HelperPool pool(2);
  // A thread that another program holds up is no caller at present: try again.
  int64_t least = INT64_MAX;
  for (int i = 0; i < 100 && least > 4; ++i) least = std::min(least, HelpedTurns(&pool));
  EXPECT_LE(least, 4);
}

TEST(RecentCallers, AreThoseOfThisPeriodOrTheOneBefore) {
  constexpr int64_t kPeriod = RecentCallers::kPeriod;
  RecentCallers callers;
  int64_t counted[] = {-1, -1, -1};
  EXPECT_EQ(callers.Count(kPeriod, &counted[0]), 1);
  EXPECT_EQ(callers.Count(kPeriod + 1, &counted[0]), 1);  // the same thread
  EXPECT_EQ(callers.Count(kPeriod + 2, &counted[1]), 2);
  EXPECT_EQ(callers.Count(kPeriod + 3, &counted[2]), 3);
  EXPECT_EQ(callers.Count(2 * kPeriod, &counted[0]), 3);
  EXPECT_EQ(callers.Count(2 * kPeriod - 1, &counted[1]), 3);  // it has read the clock before
  EXPECT_EQ(callers.Count(3 * kPeriod, &counted[0]), 1);      // alone in this one and in the last
  EXPECT_EQ(callers.Count(5 * kPeriod, &counted[1]), 1);
}

TEST(RecentCallers, OutliveTheirNumbersOfPeriods) {
  constexpr int64_t kPeriod = RecentCallers::kPeriod;
  RecentCallers callers;
  int64_t counted[] = {-1, -1};
  const int64_t last = (int64_t{1} << 32) - 1;
  EXPECT_EQ(callers.Count((last - 100) * kPeriod, &counted[0]), 1);
  EXPECT_EQ(callers.Count((last - 1) * kPeriod, &counted[0]), 1);
  EXPECT_EQ(callers.Count((last - 1) * kPeriod, &counted[1]), 2);
  EXPECT_EQ(callers.Count(last * kPeriod, &counted[1]), 2);
  EXPECT_EQ(callers.Count((last + 1) * kPeriod, &counted[1]), 1);
}

/*! \brief Run calls of a program for 4 seconds, and return which part of them had helpers. */
double HelpedShare(CallHistory* history, int64_t alone, int64_t helped, int64_t begin = kSecond) {
  int64_t now = begin;
  const int64_t end = now + 4 * kSecond;
  int64_t calls = 0;
  int64_t with_helpers = 0;
  while (now < end) {
    const bool helpers = ChooseHelpers(history, now);
    int64_t duration = helpers ? helped : alone;
    if (++calls % 50 == 0) duration += 3000 * kMicrosecond;  // a lost core
    now += duration;
    NoteCall(history, helpers, duration);
    if (helpers) ++with_helpers;
  }
  return static_cast<double>(with_helpers) / static_cast<double>(calls);
}

TEST(CallChoice, TakesTheFasterWay) {
  CallHistory slower_with_helpers{};
  EXPECT_LT(HelpedShare(&slower_with_helpers, 100 * kMicrosecond, 150 * kMicrosecond), 0.02);
  CallHistory faster_with_helpers{};
  EXPECT_GT(HelpedShare(&faster_with_helpers, 150 * kMicrosecond, 100 * kMicrosecond), 0.98);
}

TEST(CallChoice, LeavesCoresToOthersWhereTheyGainNothing) {
  CallHistory history{};
  EXPECT_LT(HelpedShare(&history, 101 * kMicrosecond, 100 * kMicrosecond), 0.03);
}

TEST(CallChoice, FollowsTheMachine) {
  CallHistory history{};
  HelpedShare(&history, 100 * kMicrosecond, 150 * kMicrosecond);
  EXPECT_GT(HelpedShare(&history, 100 * kMicrosecond, 60 * kMicrosecond, 5 * kSecond), 0.8);
}

TEST(CallChoice, LongCallsAlwaysHaveHelpers) {
  CallHistory history{};
  EXPECT_EQ(HelpedShare(&history, 9000 * kMicrosecond, 5000 * kMicrosecond), 1.0);
}

}  // namespace
}  // namespace tvm_ios
