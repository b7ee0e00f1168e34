// SPDX-License-Identifier: Apache-2.0
#include "graph/partition.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <utility>
#include <vector>

#include "random_dag.h"
#include "support/error.h"

namespace tvm_ios {
namespace {

using Blocks = std::vector<std::vector<int>>;

/*! \brief Branches that a cut before a position of the topological order takes away. */
int64_t BranchesCut(const Dag& dag, int cut) {
  const std::vector<int>& position = dag.topological_position();
  int64_t live = 0;
  for (int op = 0; op < dag.num_ops(); ++op) {
    const IntSpan readers = dag.successors(op);
    live += position[op] < cut && std::any_of(
                                      readers.begin(), readers.end(),
                                      [&](int reader) { return position[reader] >= cut; });
  }
  return std::max<int64_t>(0, live - 1);
}

/*! \brief Branches cut and number of blocks of the best partition, from all partitions. */
std::pair<int64_t, int64_t> BestByBruteForce(const Dag& dag, int max_block_size) {
  std::pair<int64_t, int64_t> best{INT64_MAX, 0};
  for (uint32_t cuts = 0; cuts < 1u << (dag.num_ops() - 1); ++cuts) {
    std::pair<int64_t, int64_t> cost{0, 1};
    int size = 1, largest = 1;
    for (int cut = 1; cut < dag.num_ops(); ++cut, ++size, largest = std::max(largest, size)) {
      if (!(cuts >> (cut - 1) & 1)) continue;
      cost.first += BranchesCut(dag, cut);
      ++cost.second;
      size = 0;
    }
    if (largest <= max_block_size) best = std::min(best, cost);
  }
  return best;
}

TEST(Partition, CutsTheFewestBranches) {
  std::mt19937 random(7);
  for (int round = 0; round < 100; ++round) {
    const Dag dag = RandomDag(1 + round % 11, 0.25, &random);
    const int max_block_size = 1 + static_cast<int>(random() % 6);
    std::pair<int64_t, int64_t> cost{0, 0};
    std::vector<int> order;
    for (const std::vector<int>& block : Partition(dag, max_block_size)) {
      if (!order.empty()) cost.first += BranchesCut(dag, static_cast<int>(order.size()));
      ++cost.second;
      EXPECT_LE(block.size(), static_cast<size_t>(max_block_size));
      order.insert(order.end(), block.begin(), block.end());
    }
    EXPECT_EQ(order, dag.topological_order());
    EXPECT_EQ(cost, BestByBruteForce(dag, max_block_size));
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

TEST(Partition, RefusesEmptyBlocks) { EXPECT_THROW(Partition(Chain(2), 0), OptionError); }

}  // namespace
}  // namespace tvm_ios
