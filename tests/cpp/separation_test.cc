// SPDX-License-Identifier: Apache-2.0
#include "runtime/separation.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <thread>
#include <vector>

namespace tvm_ios {
namespace {

std::vector<int> Allowed() {
  cpu_set_t set;
  EXPECT_EQ(sched_getaffinity(0, sizeof(set), &set), 0);
  std::vector<int> cores;
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(core, &set)) cores.push_back(core);
  }
  return cores;
}

void Allow(const std::vector<int>& cores) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (int core : cores) CPU_SET(core, &set);
  ASSERT_EQ(sched_setaffinity(0, sizeof(set), &set), 0);
}

/*! \brief Run in a thread of its own, whose affinity may be changed. */
template <typename Work>
void InThread(Work work) {
  std::thread(work).join();
}

TEST(Separation, ACoreIsTakenOnce) {
  InThread([] {
    const int core = Allowed().front();
    Allow({core});
    TakenCores cores;
    EXPECT_FALSE(cores.taken(core));
    EXPECT_FALSE(cores.Take());
    EXPECT_TRUE(cores.taken(core));
    EXPECT_TRUE(cores.Take());
  });
}

TEST(Separation, ATaskOnATakenCoreMoves) {
  const std::vector<int> all = Allowed();
  if (all.size() < 2) GTEST_SKIP() << "takes two cores";
  InThread([&all] {
    const std::vector<int> two{all[0], all[1]};
    TakenCores cores;
    Allow({two[0]});
    cores.Take();
    Allow(two);
    cores.Separate();
    EXPECT_TRUE(cores.taken(two[1]));
    EXPECT_EQ(Allowed(), two) << "it may return";
  });
}

TEST(Separation, ATaskWithoutAFreeCoreStays) {
  InThread([] {
    const int core = Allowed().front();
    Allow({core});
    TakenCores cores;
    cores.Take();
    cores.Separate();
    EXPECT_EQ(Allowed(), std::vector<int>{core});
    for (int other = 0; other < 64; ++other) EXPECT_EQ(cores.taken(other), other == core);
  });
}

}  // namespace
}  // namespace tvm_ios
