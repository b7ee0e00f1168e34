// SPDX-License-Identifier: Apache-2.0
#include "graph/cut.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "graph/cut_search.h"
#include "random_cuts.h"
#include "random_dag.h"

namespace tvm_ios {
namespace {

uint32_t AsSet(const Cut& cut) {
  uint32_t set = (1u << cut.base) - 1;
  for (int op : cut.extra) set |= 1u << op;
  return set;
}

Cut AsCut(uint32_t set) { return Cut::Of(0, Members(set)); }

TEST(Cut, IsASet) {
  const Cut cut = Cut::Of(2, {5, 3, 2, 9});
  EXPECT_EQ(cut, (Cut{4, {5, 9}}));
  EXPECT_EQ(cut.size(), 6);
  EXPECT_TRUE(cut.Contains(3) && cut.Contains(9));
  EXPECT_FALSE(cut.Contains(4));
  EXPECT_TRUE(cut.IsWithin(Cut{6, {9}}));
  EXPECT_FALSE(cut.IsWithin(Cut{6, {8}}));
  EXPECT_FALSE((Cut{6, {}}.IsWithin(cut)));
}

TEST(CutCosts, CountBranchesAndDividedClasses) {
  std::mt19937 random(5);
  for (int round = 0; round < 100; ++round) {
    const Dag dag = OrderedRandomDag(1 + round % 9, 0.3, &random);
    const std::vector<int64_t> classes = RandomClasses(dag.num_ops(), &random);
    const CutCosts costs(dag, classes);
    for (uint32_t set = 0; set < 1u << dag.num_ops(); ++set) {
      if (!IsBefore(dag, set)) continue;
      EXPECT_EQ(costs.Cost(AsCut(set)),
                std::max(0, CountLive(dag, set) - 1) + CountDivided(classes, set));
    }
  }
}

TEST(CutCosts, SignaturesDoNotDependOnThePlace) {
  // 0 -> {1, 2} -> 3 -> {4, 5} -> ...: diamonds in a row. Those far from the ends look alike.
  std::vector<Dag::Edge> edges;
  for (int op = 0; op < 30; op += 3) {
    for (int branch : {op + 1, op + 2}) {
      edges.emplace_back(op, branch);
      edges.emplace_back(branch, op + 3);
    }
  }
  const Dag dag(31, edges);
  const CutCosts costs(dag, {});
  EXPECT_EQ(costs.Signature(Cut{13, {}}), costs.Signature(Cut{16, {}}));
  EXPECT_NE(costs.Signature(Cut{13, {}}), costs.Signature(Cut{14, {}}));
  EXPECT_EQ(costs.Signature(Cut{13, {14}}), costs.Signature(Cut{14, {}}));
}

TEST(CheapestCuts, AreTheCheapestOfTheirRange) {
  InterruptPoller poller(nullptr);
  std::mt19937 random(11);
  for (int round = 0; round < 300; ++round) {
    const Dag dag = OrderedRandomDag(1 + round % 10, 0.3, &random);
    const std::vector<int64_t> classes = RandomClasses(dag.num_ops(), &random);
    const CutCosts costs(dag, classes);
    const int begin = static_cast<int>(random() % dag.num_ops());
    const int end = begin + 1 + static_cast<int>(random() % (dag.num_ops() - begin));
    int through = begin + static_cast<int>(random() % (end - begin));
    if (round % 2 == 0 || dag.successors(through).size() == 0) through = -1;

    int least = 1000;
    uint32_t smallest = 0, largest = 0;
    for (uint32_t set = 0; set < 1u << end; ++set) {
      if (!IsBefore(dag, set) || (set & ((1u << begin) - 1)) != (1u << begin) - 1) continue;
      if (through >= 0) {
        const IntSpan readers = dag.successors(through);
        if (!(set >> through & 1)) continue;
        if (std::any_of(readers.begin(), readers.end(), [&](int op) { return set >> op & 1; })) {
          continue;
        }
      }
      const int cost = CountLive(dag, set) + CountDivided(classes, set);
      if (cost > least) continue;
      smallest = cost < least ? set : smallest & set;
      largest = cost < least ? set : largest | set;
      least = cost;
    }
    const std::vector<Cut> cuts = CheapestCuts(costs, {begin, end, through}, &poller);
    ASSERT_EQ(cuts.size(), 2u);
    EXPECT_EQ(AsSet(cuts[0]), smallest);
    EXPECT_EQ(AsSet(cuts[1]), largest);
  }
}

TEST(ImproveCuts, FindsTheNarrowPlaceNearby) {
  InterruptPoller poller(nullptr);
  // Two wide halves joined by one operator: 0 -> {1 .. 4} -> 5 -> {6 .. 9} -> 10.
  std::vector<Dag::Edge> edges;
  for (int branch : {1, 2, 3, 4}) {
    edges.insert(edges.end(), {{0, branch}, {branch, 5}, {5, branch + 5}, {branch + 5, 10}});
  }
  const Dag dag(11, edges);
  const CutCosts costs(dag, {});
  for (int base : {3, 8}) {
    std::vector<Cut> cuts{Cut{base, {}}, Cut{11, {}}};
    ImproveCuts(costs, 8, &cuts, &poller);
    EXPECT_EQ(cuts[0], (Cut{6, {}}));
  }
}

TEST(ImproveCuts, NeverMakesACutDearerOrABlockTooLarge) {
  InterruptPoller poller(nullptr);
  std::mt19937 random(13);
  for (int round = 0; round < 100; ++round) {
    const Dag dag = OrderedRandomDag(3 + round % 12, 0.3, &random);
    const CutCosts costs(dag, RandomClasses(dag.num_ops(), &random));
    const int size = 2 + static_cast<int>(random() % 4);
    std::vector<Cut> cuts;
    for (int base = size; base < dag.num_ops(); base += size) cuts.push_back(Cut{base, {}});
    cuts.push_back(Cut{dag.num_ops(), {}});
    std::vector<Cut> improved = cuts;
    ImproveCuts(costs, size, &improved, &poller);
    ASSERT_EQ(improved.size(), cuts.size());
    EXPECT_EQ(improved.back(), cuts.back());
    Cut before;
    for (size_t i = 0; i < cuts.size(); ++i) {
      EXPECT_LE(costs.Cost(improved[i]), costs.Cost(cuts[i]));
      EXPECT_TRUE(IsBefore(dag, AsSet(improved[i])));
      EXPECT_TRUE(before.IsWithin(improved[i]));
      EXPECT_GE(improved[i].size() - before.size(), 1);
      EXPECT_LE(improved[i].size() - before.size(), size);
      before = improved[i];
    }
  }
}

}  // namespace
}  // namespace tvm_ios
