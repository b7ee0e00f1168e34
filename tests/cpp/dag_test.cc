// SPDX-License-Identifier: Apache-2.0
#include "graph/dag.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "graph/components.h"
#include "random_dag.h"
#include "support/error.h"

namespace tvm_ios {
namespace {

std::vector<int> ToVector(IntSpan span) { return {span.begin(), span.end()}; }

TEST(Dag, KeepsDistinctSortedNeighbours) {
  const Dag dag(4, {{3, 1}, {3, 0}, {3, 1}, {0, 1}});
  EXPECT_EQ(dag.num_edges(), 3);
  EXPECT_EQ(ToVector(dag.successors(3)), (std::vector<int>{0, 1}));
  EXPECT_EQ(ToVector(dag.predecessors(1)), (std::vector<int>{0, 3}));
  EXPECT_EQ(ToVector(dag.successors(2)), std::vector<int>());
}

TEST(Dag, TakesTheSmallestReadyOperatorFirst) {
  const Dag dag(5, {{4, 0}, {4, 2}, {2, 1}});
  EXPECT_EQ(dag.topological_order(), (std::vector<int>{3, 4, 0, 2, 1}));
  EXPECT_EQ(dag.topological_position(), (std::vector<int>{2, 4, 3, 0, 1}));
}

TEST(Dag, RefusesWhatIsNoGraph) {
  EXPECT_THROW(Dag(0, {}), GraphError);
  EXPECT_THROW(Dag(-1, {}), GraphError);
  EXPECT_THROW(Dag(int64_t{1} << 40, {}), GraphError);
  EXPECT_THROW(Dag(2, {{1, 1}}), GraphError);
  EXPECT_THROW(Dag(2, {{0, 2}}), GraphError);
  EXPECT_THROW(Dag(2, {{-1, 0}}), GraphError);
  EXPECT_THROW(Dag(3, {{0, 1}, {1, 2}, {2, 1}}), GraphError);
}

TEST(Dag, OrdersALongChainWithoutRecursion) {
  const Dag dag = Chain(1000000);
  EXPECT_EQ(dag.topological_order().back(), 999999);
}

TEST(DagBits, ReachesExactlyTheDescendants) {
  std::mt19937 random(3);
  for (int round = 0; round < 50; ++round) {
    const Dag dag = RandomDag(12, 0.2, &random);
    const DagBits<FixedBitset<1>> bits(dag);
    for (int from = 0; from < 12; ++from) {
      std::vector<bool> reached(12);
      std::vector<int> stack{from};
      while (!stack.empty()) {
        const int op = stack.back();
        stack.pop_back();
        reached[op] = true;
        for (int successor : dag.successors(op)) stack.push_back(successor);
      }
      for (int to = 0; to < 12; ++to) EXPECT_EQ(bits.descendants[from].Test(to), reached[to]);
      for (int to : dag.successors(from)) {
        EXPECT_TRUE(bits.successors[from].Test(to));
        EXPECT_TRUE(bits.predecessors[to].Test(from));
      }
      EXPECT_EQ(bits.successors[from].Count(), dag.successors(from).size());
      EXPECT_EQ(bits.predecessors[from].Count(), dag.predecessors(from).size());
    }
  }
}

TEST(Components, JoinsWhatSharesAnEdge) {
  const Dag dag(7, {{5, 1}, {0, 1}, {1, 2}, {2, 3}, {4, 6}});
  EXPECT_EQ(Components(dag, {3, 6, 1, 5, 0}), (std::vector<std::vector<int>>{{0, 5, 1}, {3}, {6}}));
  EXPECT_EQ(Components(dag, {}), std::vector<std::vector<int>>());
}

TEST(Components, RefusesWhatIsNoSet) {
  EXPECT_THROW(Components(Chain(3), {0, 3}), GraphError);
  EXPECT_THROW(Components(Chain(3), {-1}), GraphError);
  EXPECT_THROW(Components(Chain(3), {1, 1}), GraphError);
}

}  // namespace
}  // namespace tvm_ios
