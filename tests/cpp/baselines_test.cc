// SPDX-License-Identifier: Apache-2.0
#include "search/baselines.h"

#include <gtest/gtest.h>

#include <vector>

#include "random_dag.h"
#include "support/error.h"

namespace tvm_ios {
namespace {

using Groups = std::vector<std::vector<int>>;

std::vector<Groups> StageGroups(const Schedule& schedule) {
  std::vector<Groups> groups;
  for (const Stage& stage : schedule) groups.push_back(stage.groups);
  return groups;
}

TEST(SequentialSchedule, IsTheTopologicalOrder) {
  const Dag dag(3, {{2, 0}});
  EXPECT_EQ(StageGroups(SequentialSchedule(dag)), (std::vector<Groups>{{{1}}, {{2}}, {{0}}}));
}

TEST(GreedySchedule, TakesWhatIsReadyByIndex) {
  const Dag dag(6, {{0, 3}, {1, 4}, {3, 5}});
  EXPECT_EQ(StageGroups(GreedySchedule(dag, 2)),
            (std::vector<Groups>{{{0}, {1}}, {{2}, {3}}, {{4}, {5}}}));
  EXPECT_EQ(StageGroups(GreedySchedule(dag, 100)),
            (std::vector<Groups>{{{0}, {1}, {2}}, {{3}, {4}}, {{5}}}));
}

TEST(GreedySchedule, RefusesNoGroups) { EXPECT_THROW(GreedySchedule(Chain(2), 0), OptionError); }

}  // namespace
}  // namespace tvm_ios
