// SPDX-License-Identifier: Apache-2.0
#include "runtime/core_claims.h"

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

TEST(CoreClaims, ACoreIsClaimedOnce) {
  InThread([] {
    const int core = Allowed().front();
    Allow({core});
    CoreClaims claims;
    EXPECT_FALSE(claims.claimed(core));
    EXPECT_FALSE(claims.Claim());
    EXPECT_TRUE(claims.claimed(core));
    EXPECT_TRUE(claims.Claim());
  });
}

TEST(CoreClaims, ATaskOnAClaimedCoreMoves) {
  const std::vector<int> all = Allowed();
  if (all.size() < 2) GTEST_SKIP() << "takes two cores";
  InThread([&all] {
    const std::vector<int> two{all[0], all[1]};
    CoreClaims claims;
    Allow({two[0]});
    claims.Claim();
    Allow(two);
    claims.ClaimDistinct();
    EXPECT_TRUE(claims.claimed(two[1]));
    EXPECT_EQ(Allowed(), two) << "it may return";
  });
}

TEST(CoreClaims, ATaskWithoutAFreeCoreStays) {
  InThread([] {
    const int core = Allowed().front();
    Allow({core});
    CoreClaims claims;
    claims.Claim();
    claims.ClaimDistinct();
    EXPECT_EQ(Allowed(), std::vector<int>{core});
    for (int other = 0; other < 64; ++other) EXPECT_EQ(claims.claimed(other), other == core);
  });
}

}  // namespace
}  // namespace tvm_ios
