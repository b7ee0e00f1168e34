// SPDX-License-Identifier: Apache-2.0
#include "search/baselines.h"

#include <gtest/gtest.h>

#include <vector>

#include "random_dag.h"
#include "support/error.h"

namespace tvm_ios {
namespace {

using Stages = std::vector<std::vector<int>>;

Stages Operators(const Schedule& schedule) {
  Stages stages;
  for (const Candidate& stage : schedule) stages.push_back(stage.ops);
  return stages;
}

TEST(SequentialSchedule, IsTheTopologicalOrder) {
  const Dag dag(3, {{2, 0}});
  EXPECT_EQ(Operators(SequentialSchedule(dag)), (Stages{{1}, {2}, {0}}));
}

TEST(GreedySchedule, TakesWhatIsReadyByIndex) {
  const Dag dag(6, {{0, 3}, {1, 4}, {3, 5}});
  EXPECT_EQ(Operators(GreedySchedule(dag, 2)), (Stages{{0, 1}, {2, 3}, {4, 5}}));
  EXPECT_EQ(Operators(GreedySchedule(dag, 100)), (Stages{{0, 1, 2}, {3, 4}, {5}}));
}

TEST(GreedySchedule, RefusesNoGroups) { EXPECT_THROW(GreedySchedule(Chain(2), 0), OptionError); }

}  // namespace
}  // namespace tvm_ios
