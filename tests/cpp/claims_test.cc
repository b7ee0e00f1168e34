// SPDX-License-Identifier: Apache-2.0
#include "runtime/launch/claims.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>
#include <thread>
#include <vector>

#include "claims_support.h"
#include "runtime/cores.h"

namespace tvm_ios {
namespace {

using std::chrono::milliseconds;

void RunOn(Claims* claims, int32_t threads) {
  std::vector<std::thread> others;
  for (int32_t home = 1; home < threads; ++home) {
    others.emplace_back([claims, home] { claims->Work(home, false, CurrentThread()); });
  }
  claims->Work(0, true, CurrentThread());
  for (std::thread& other : others) other.join();
}

std::vector<uint32_t> Sequential(uint32_t seed, int32_t columns, int32_t levels) {
  std::mt19937 random(seed);
  TestProgram program(columns);
  FillRandomly(&random, columns, levels, &program);
  const ClaimProgram* tables = program.Finish(RunTestUnits);
  void* arguments[] = {&program};
  Claims claims;
  claims.Begin(tables, arguments);
  claims.StayAlone();
  claims.Work(0, true);
  ExpectEachOnce(program);
  return program.values;
}

void CheckRandom(uint32_t seed, int32_t columns, int32_t threads, uint32_t delays) {
  const int32_t levels = 12;
  std::mt19937 random(seed);
  TestProgram program(columns);
  FillRandomly(&random, columns, levels, &program);
  const ClaimProgram* tables = program.Finish(RunTestUnits);
  program.delays = delays;
  void* arguments[] = {&program};
  Claims claims;
  claims.Begin(tables, arguments);
  RunOn(&claims, std::min(threads, columns));
  ExpectEachOnce(program);
  EXPECT_EQ(program.values, Sequential(seed, columns, levels));
}

TEST(Claims, EachUnitRunsOnceAfterWhatItWaitsFor) {
  for (uint32_t seed = 0; seed < 300; ++seed) {
    CheckRandom(seed, 1 + static_cast<int32_t>(seed % 5), 1 + static_cast<int32_t>(seed % 3), 0);
  }
}

TEST(Claims, DelaysDoNotChangeResults) {
  for (uint32_t seed = 0; seed < 60; ++seed) CheckRandom(seed, 4, 4, seed + 1);
}

TEST(Claims, ManyColumnsOnTwoThreads) {
  for (uint32_t seed = 0; seed < 10; ++seed) CheckRandom(seed, 64, 2, seed);
}

TEST(Claims, AColumnWithoutItsThreadIsComputedByOthers) {
  TestProgram program(3);
  for (int32_t i = 0; i < 20; ++i) program.Add(2, 3, false, {});
  const ClaimProgram* tables = program.Finish(RunTestUnits);
  void* arguments[] = {&program};
  Claims claims;
  claims.Begin(tables, arguments);
  claims.Work(0, true);
  ExpectEachOnce(program);
  EXPECT_EQ(claims.stolen(), 60);
}

/*! \brief What the units of a column see of their threads. */
struct Threads {
  std::mutex mutex;
  std::set<std::thread::id> of_chain;
  std::vector<int32_t> order;
  std::atomic<bool> release{false};
};

TEST(Claims, OneThreadRunsAChainInOrder) {
  TestProgram program(2);
  program.Add(0, 1, false, {});
  program.Add(1, 100, true, {});
  const ClaimProgram* tables =
      program.Finish([](void** arguments, int32_t begin, int32_t, int32_t) {
        auto* threads = static_cast<Threads*>(arguments[0]);
        if (begin == 0) return 0;
        const std::lock_guard<std::mutex> lock(threads->mutex);
        threads->of_chain.insert(std::this_thread::get_id());
        threads->order.push_back(begin);
        return 0;
      });
  Threads threads;
  void* arguments[] = {&threads};
  Claims claims;
  claims.Begin(tables, arguments);
  RunOn(&claims, 2);
  EXPECT_EQ(threads.of_chain.size(), 1U);
  EXPECT_EQ(threads.order.size(), 100U);
  EXPECT_TRUE(std::is_sorted(threads.order.begin(), threads.order.end()));
}

TEST(Claims, AThreadThatLostItsCoreHoldsUpItsUnitsAlone) {
  TestProgram program(2);
  program.Add(0, 1, false, {});
  program.Add(0, 1, false, {});
  program.Add(1, 1, true, {});
  for (int32_t i = 0; i < 9; ++i) program.Add(0, 4, false, {});
  const ClaimProgram* tables =
      program.Finish([](void** arguments, int32_t begin, int32_t end, int32_t) -> int32_t {
        auto* own = static_cast<TestProgram*>(arguments[0]);
        const auto last = static_cast<int32_t>(own->num_units()) - 1;
        if (begin == last) {  // column 1: until all of column 0 has run
          for (int32_t i = 0; i < last; ++i) {
            while (own->counts[i].load() == 0) std::this_thread::sleep_for(milliseconds(1));
          }
        }
        for (int32_t unit = begin; unit < end; ++unit) own->RunUnit(unit);
        return 0;
      });
  void* arguments[] = {&program};
  Claims claims;
  claims.Begin(tables, arguments);
  std::thread slow([&claims] { claims.Work(1, false); });
  claims.Work(0, true);
  slow.join();
  ExpectEachOnce(program);
}

/*! \brief Return how often a core was lent to a thread that sleeps, as if it had no core. */
int64_t Lent(bool may_be_moved) {
  static std::atomic<bool> began;
  TestProgram program(2);
  program.Add(1, 1, false, {});
  const ClaimProgram* tables =
      program.Finish([](void** /*arguments*/, int32_t, int32_t, int32_t) -> int32_t {
        began = true;
        std::this_thread::sleep_for(milliseconds(20));
        return 0;
      });
  began = false;
  Claims claims;
  claims.Begin(tables, nullptr);
  std::thread other([&] { claims.Work(1, false, may_be_moved ? CurrentThread() : 0); });
  while (!began.load()) std::this_thread::yield();
  claims.Work(0, true, CurrentThread());
  other.join();
  return claims.lent();
}

TEST(Claims, AThreadLendsItsCoreToTheOneThatItWaitsFor) {
  const std::vector<int> allowed = CoresOfThread();
  EXPECT_EQ(Lent(false), 0);
  int64_t lent = 0;
  for (int i = 0; i < 100 && lent == 0; ++i) lent = Lent(true);
  EXPECT_GT(lent, 0);
  EXPECT_EQ(CoresOfThread(), allowed);
}

TEST(Claims, UnitsOfASlowColumnAreStolen) {
  TestProgram program(2);
  program.Add(0, 2, false, {});
  program.Add(1, 8, false, {});  // units 2 to 9, of which the first claim takes 2 to 5
  const ClaimProgram* tables =
      program.Finish([](void** arguments, int32_t begin, int32_t end, int32_t) -> int32_t {
        auto* own = static_cast<TestProgram*>(arguments[0]);
        for (int32_t unit = 6; begin == 2 && unit < 10; ++unit) {
          while (own->counts[unit].load() == 0) std::this_thread::sleep_for(milliseconds(1));
        }
        for (int32_t unit = begin; unit < end; ++unit) own->RunUnit(unit);
        return 0;
      });
  void* arguments[] = {&program};
  Claims claims;
  claims.Begin(tables, arguments);
  std::thread slow([&claims] { claims.Work(1, false); });
  std::this_thread::sleep_for(milliseconds(20));
  claims.Work(0, true);
  slow.join();
  ExpectEachOnce(program);
  EXPECT_EQ(claims.stolen(), 4);
}

/*! \brief How many units each of two threads has computed, one of which takes twice as long. */
struct UnequalThreads {
  static thread_local bool is_slow;
  std::atomic<int> units_of_slow{0};
  std::atomic<int> units_of_fast{0};
};

thread_local bool UnequalThreads::is_slow = false;

TEST(Claims, AThreadOfHalfTheSpeedComputesAThird) {
  constexpr int32_t kParts = 8;
  constexpr int32_t kUnits = 6;  // of which 3, 2 and 1 are claimed
  TestProgram program(2);
  for (int32_t i = 0; i < kParts; ++i) {
    const int32_t barrier = i == 0 ? -1 : program.AddBarrier();
    for (int32_t column = 0; column < 2; ++column) {
      program.Add(column, kUnits, false, {}, barrier);
    }
  }
  const ClaimProgram* tables =
      program.Finish([](void** arguments, int32_t begin, int32_t end, int32_t) {
        auto* threads = static_cast<UnequalThreads*>(arguments[0]);
        const bool slow = UnequalThreads::is_slow;
        (slow ? threads->units_of_slow : threads->units_of_fast).fetch_add(end - begin);
        std::this_thread::sleep_for((end - begin) * milliseconds(slow ? 6 : 3));
        return 0;
      });
  UnequalThreads threads;
  void* arguments[] = {&threads};
  Claims claims;
  claims.Begin(tables, arguments);
  std::thread slow([&claims] {
    UnequalThreads::is_slow = true;
    claims.Work(1, false);
  });
  claims.Work(0, true);
  slow.join();
  EXPECT_EQ(threads.units_of_slow + threads.units_of_fast, 2 * kParts * kUnits);
  // A third is perfect, and a half is what the plan gave it.
  EXPECT_LE(threads.units_of_slow, 2 * kParts * kUnits * 0.42);
}

TEST(Claims, AFailureIsReportedAndNothingHangs) {
  TestProgram program(2);
  for (int32_t i = 0; i < 5; ++i) {
    program.Add(0, 2, false, {});
    program.Add(1, 2, false, {{0, i + 1}});
  }
  const ClaimProgram* tables =
      program.Finish([](void**, int32_t begin, int32_t, int32_t) { return begin == 4 ? -7 : 0; });
  void* arguments[] = {&program};
  Claims claims;
  claims.Begin(tables, arguments);
  RunOn(&claims, 2);
  EXPECT_EQ(claims.error(), -7);
  EXPECT_TRUE(claims.Completed());
}

TEST(Claims, UnitsAreRecorded) {
  TestProgram program(2);
  program.Add(0, 4, false, {});
  program.Add(1, 3, true, {{0, 1}});
  program.Finish(RunTestUnits);
  program.program()->record = 1;
  std::vector<UnitRecord> log(7, UnitRecord{0, 0, -1});
  void* arguments[] = {&program, log.data()};
  Claims claims;
  claims.Begin(program.program(), arguments);
  claims.StayAlone();
  claims.Work(0, true);
  EXPECT_GT(log[0].begin, 0);
  EXPECT_GE(log[0].end, log[0].begin);
  EXPECT_EQ(log[0].thread, 0);
  EXPECT_EQ(log[1].begin, 0);  // computed by the call of unit 0
  for (size_t unit = 4; unit < 7; ++unit) EXPECT_GE(log[unit].begin, log[0].end);
}

}  // namespace
}  // namespace tvm_ios
