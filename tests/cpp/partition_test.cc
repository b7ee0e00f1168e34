// SPDX-License-Identifier: Apache-2.0
#include "graph/partition.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <random>
#include <set>
#include <vector>

#include "random_cuts.h"
#include "random_dag.h"
#include "support/error.h"

namespace tvm_ios {
namespace {

using Blocks = std::vector<std::vector<int>>;

constexpr int64_t kNone = 1000;

int64_t CostOf(const Dag& dag, const std::vector<int64_t>& classes, uint32_t before) {
  return std::max(0, CountLive(dag, before) - 1) + CountDivided(classes, before);
}

/*! \brief The least cost of a partition, from all of them or from those of one order. */
int64_t LeastCost(const Dag& dag, const std::vector<int64_t>& classes, int max_block_size,
                  const std::vector<int>* order) {
  const uint32_t all = (1u << dag.num_ops()) - 1;
  std::vector<uint32_t> sets;
  if (order == nullptr) {
    for (uint32_t set = 0; set <= all; ++set) {
      if (IsBefore(dag, set)) sets.push_back(set);
    }
  } else {
    sets.push_back(0);
    for (int op : *order) sets.push_back(sets.back() | 1u << op);
  }
  std::map<uint32_t, int64_t> least{{0, 0}};
  for (uint32_t set : sets) {
    if (set == 0) continue;
    int64_t& best = least.emplace(set, kNone).first->second;
    for (const auto& [part, cost] : least) {
      if (part == set || (part & ~set) != 0) continue;
      if (Members(set & ~part).size() > static_cast<size_t>(max_block_size)) continue;
      best = std::min(best, cost + (set == all ? 0 : CostOf(dag, classes, set)));
    }
  }
  return least.at(all);
}

/*! \brief What blocks cost; checks that they are a partition on the way. */
int64_t CheckedCost(const Dag& dag, const std::vector<int64_t>& classes, int max_block_size,
                    const Blocks& blocks) {
  uint32_t before = 0;
  int64_t cost = 0;
  for (const std::vector<int>& block : blocks) {
    if (before != 0) cost += CostOf(dag, classes, before);
    EXPECT_FALSE(block.empty());
    EXPECT_LE(block.size(), static_cast<size_t>(max_block_size));
    for (int op : block) {  // in topological order
      EXPECT_FALSE(before >> op & 1);
      before |= 1u << op;
      EXPECT_TRUE(IsBefore(dag, before));
    }
  }
  EXPECT_EQ(before, (1u << dag.num_ops()) - 1);
  return cost;
}

TEST(Partition, IsNoWorseThanCuttingAnOrderAndNearTheOptimum) {
  std::mt19937 random(7);
  int64_t sum = 0, least_sum = 0, along_sum = 0;
  constexpr int kRounds = 200;
  for (int round = 0; round < kRounds; ++round) {
    const Dag dag = RandomDag(1 + round % 11, 0.25, &random);
    const std::vector<int64_t> classes = RandomClasses(dag.num_ops(), &random);
    const int max_block_size = 1 + static_cast<int>(random() % 6);
    const Blocks blocks = Partition(dag, max_block_size, classes);
    const int64_t cost = CheckedCost(dag, classes, max_block_size, blocks);
    EXPECT_EQ(PartitionCost(dag, blocks, classes), cost);
    const int64_t along = LeastCost(dag, classes, max_block_size, &dag.topological_order());
    const int64_t least = LeastCost(dag, classes, max_block_size, nullptr);
    EXPECT_LE(cost, along);
    EXPECT_GE(cost, least);
    along_sum += along;
    sum += cost;
    least_sum += least;
  }
  EXPECT_LE(4 * (sum - least_sum), along_sum - least_sum)
      << sum << " between " << least_sum << " and " << along_sum;
}

TEST(Partition, CutsAtSingleOperatorsWhateverTheNumbering) {
  // Cells of six operators, each of which starts from what the last one ends with.
  std::mt19937 random(17);
  for (int round = 0; round < 30; ++round) {
    std::vector<int> number(31);
    std::iota(number.begin(), number.end(), 0);
    std::shuffle(number.begin(), number.end(), random);
    std::vector<Dag::Edge> edges;
    const auto add = [&](int from, int to) { edges.emplace_back(number[from], number[to]); };
    for (int cell = 0; cell < 30; cell += 6) {
      for (int branch = cell + 1; branch < cell + 6; ++branch) {
        if (branch > cell + 1 && random() % 2) add(branch - 1, branch);
        if (branch > cell + 1 || random() % 2) add(cell, branch);
        add(branch, cell + 6);
      }
    }
    const Dag dag(31, edges);
    EXPECT_EQ(PartitionCost(dag, Partition(dag, 7)), 0);
    EXPECT_EQ(PartitionCost(dag, Partition(dag, 12)), 0);
  }
}

TEST(Partition, LeavesWhatIsReadLateToTheEnd) {
  // The operators 0 .. 7 depend on nothing, and each is read by one of a chain.
  std::vector<Dag::Edge> edges;
  for (int op = 8; op < 16; ++op) {
    edges.emplace_back(op - 8, op);
    if (op > 8) edges.emplace_back(op - 1, op);
  }
  const Dag dag(16, edges);
  EXPECT_EQ(PartitionCost(dag, Partition(dag, 4)), 0);
}

TEST(Partition, KeepsTogetherWhatMayBeMerged) {
  // 1 and 3 read 0, and either can be cut off with what leads to it: 0 -> {1 -> 2, 3 -> 4} -> 5.
  const Dag dag(6, {{0, 1}, {1, 2}, {0, 3}, {3, 4}, {2, 5}, {4, 5}});
  const Blocks blocks = Partition(dag, 3, {-1, 7, -1, 7, -1, -1});
  EXPECT_EQ(blocks, (Blocks{{0, 1, 3}, {2, 4, 5}}));
  EXPECT_EQ(PartitionCost(dag, blocks, {-1, 7, -1, 7, -1, -1}), 1);
  EXPECT_EQ(PartitionCost(dag, {{0, 1, 2}, {3, 4, 5}}, {-1, 7, -1, 7, -1, -1}), 2);
}

TEST(Partition, CutsEqualCellsEqually) {
  // Cells of nine that read the results of the two before, as NASNet's do.
  constexpr int kCells = 12, kSize = 9;
  std::vector<Dag::Edge> edges;
  for (int cell = 0; cell < kCells; ++cell) {
    const int left = kSize * cell, right = left + 1, end = left + kSize - 1;
    if (cell > 1) edges.emplace_back(end - 2 * kSize, left);
    if (cell > 0) edges.emplace_back(end - kSize, right);
    for (int branch = left + 2; branch < left + 5; ++branch) {
      edges.insert(edges.end(), {{left, branch}, {branch, branch + 3}, {branch + 3, end}});
      if (branch < left + 4) edges.emplace_back(right, branch + 3);
    }
  }
  for (int max_block_size : {6, 10, 14, 20}) {
    std::map<std::set<int>, int> shapes;  // operators of a block by their distance to its first
    const Blocks blocks = Partition(Dag(kCells * kSize, edges), max_block_size);
    for (const std::vector<int>& block : blocks) {
      const int first = *std::min_element(block.begin(), block.end()) / kSize * kSize;
      std::set<int> shape;
      for (int op : block) shape.insert(op - first);
      ++shapes[shape];
    }
    EXPECT_LE(shapes.size(), blocks.size() / 2 + 1) << max_block_size;
  }
}

TEST(Partition, CutsBetweenTheBlocksOfANetwork) {
  // Two diamonds, 0 -> {1, 2} -> 3 -> {4, 5} -> 6: after 0 and after 3 one operator is live.
  const Dag dag(7, {{0, 1}, {0, 2}, {1, 3}, {2, 3}, {3, 4}, {3, 5}, {4, 6}, {5, 6}});
  EXPECT_EQ(Partition(dag, 5), (Blocks{{0, 1, 2, 3}, {4, 5, 6}}));
}

TEST(Partition, KeepsAChainTogether) {
  EXPECT_EQ(Partition(Chain(5), 5).size(), 1u);
  EXPECT_EQ(Partition(Chain(100000), 50).size(), 2000u);
}

TEST(Partition, DoesNotSeparateWhatIsIndependent) {
  EXPECT_EQ(Partition(Dag(4, {}), 4), (Blocks{{0, 1, 2, 3}}));
}

TEST(Partition, CanBeInterrupted) {
  struct Interrupted {};
  std::mt19937 random(3);
  const Dag dag = RandomDag(2000, 0.002, &random);
  EXPECT_THROW(Partition(dag, 500, {}, [] { throw Interrupted(); }), Interrupted);
}

TEST(Partition, RefusesBadOptions) {
  EXPECT_THROW(Partition(Chain(2), 0), OptionError);
  EXPECT_THROW(Partition(Chain(2), 1, {0}), OptionError);
}

TEST(PartitionCost, RefusesWhatIsNoPartition) {
  EXPECT_EQ(PartitionCost(Chain(3), {{0}, {1, 2}}), 0);
  for (const Blocks& blocks : {Blocks{{0, 1}}, Blocks{{0, 1, 2}, {2}}, Blocks{{1, 2}, {0}},
                               Blocks{{0, 1, 2, 3}}, Blocks{{0, 1, 2, -1}}}) {
    EXPECT_THROW(PartitionCost(Chain(3), blocks), GraphError);
  }
}

}  // namespace
}  // namespace tvm_ios
