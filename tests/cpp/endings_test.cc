// SPDX-License-Identifier: Apache-2.0
#include "search/endings.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>
#include <vector>

#include "graph/components.h"
#include "random_dag.h"

namespace tvm_ios {
namespace {

/*! \brief All endings of a set, by the definition. */
std::set<std::vector<int>> EndingsByDefinition(const Dag& dag, uint32_t set, Pruning pruning) {
  std::set<std::vector<int>> endings;
  for (uint32_t part = set; part != 0; part = (part - 1) & set) {
    if (!IsClosed(dag, part, set)) continue;
    const auto groups = Components(dag, Members(part));
    if (groups.size() > pruning.max_num_groups) continue;
    if (std::all_of(groups.begin(), groups.end(),
                    [&](const auto& group) { return group.size() <= pruning.max_group_size; })) {
      endings.insert(Members(part));
    }
  }
  return endings;
}

template <typename Bits>
std::vector<std::vector<int>> Enumerate(const Dag& dag, uint32_t set, Pruning pruning) {
  const DagBits<Bits> graph(dag);
  InterruptPoller poller(nullptr);
  EndingEnumerator<Bits> enumerator(graph, pruning, &poller);
  Bits remaining(dag.num_ops());
  for (int op : Members(set)) remaining.Set(op);
  std::vector<std::vector<int>> endings;
  enumerator.ForEach(
      remaining, [&](const Bits& ending) { endings.emplace_back(ending.begin(), ending.end()); });
  return endings;
}

TEST(Endings, AreThoseOfTheDefinition) {
  std::mt19937 random(4);
  for (int round = 0; round < 60; ++round) {
    const Dag dag = RandomDag(8, 0.1 * (round % 6), &random);
    const uint32_t all = (1u << dag.num_ops()) - 1;
    for (const Pruning pruning : {Pruning{3, 8}, Pruning{1, 2}, Pruning{2, 1}, Pruning{8, 8}}) {
      for (uint32_t decided = 0; decided < all; decided += 5) {
        if (!IsClosed(dag, decided, all)) continue;
        const auto found = Enumerate<FixedBitset<1>>(dag, all & ~decided, pruning);
        const std::set<std::vector<int>> distinct(found.begin(), found.end());
        EXPECT_EQ(distinct.size(), found.size()) << "an ending was enumerated twice";
        EXPECT_EQ(distinct, EndingsByDefinition(dag, all & ~decided, pruning));
      }
    }
  }
}

TEST(Endings, DoNotDependOnTheWidth) {
  std::mt19937 random(5);
  for (int round = 0; round < 20; ++round) {
    const Dag dag = RandomDag(10, 0.25, &random);
    const uint32_t all = (1u << dag.num_ops()) - 1;
    const auto expected = Enumerate<FixedBitset<1>>(dag, all, {3, 8});
    EXPECT_EQ(Enumerate<FixedBitset<4>>(dag, all, {3, 8}), expected);
    EXPECT_EQ(Enumerate<DynamicBitset>(dag, all, {3, 8}), expected);
  }
}

TEST(Endings, OfAComponentWithTwoSources) {
  // 0 and 1 are both read by 2: {0, 1, 2} is connected but no cone.
  const Dag dag(3, {{0, 2}, {1, 2}});
  EXPECT_EQ(Enumerate<FixedBitset<1>>(dag, 0b111, {3, 8}),
            (std::vector<std::vector<int>>{{0, 2}, {1, 2}, {2}, {0, 1, 2}}));
}

}  // namespace
}  // namespace tvm_ios
