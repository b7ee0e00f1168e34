// SPDX-License-Identifier: Apache-2.0
#include "search/bounded.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include "find_schedule.h"
#include "random_dag.h"
#include "support/error.h"

namespace tvm_ios {
namespace {

constexpr double kForever = 1e30;

/*! \brief Whole numbers, so that sums in any order are equal. */
StageModel RandomModel(int num_ops, std::mt19937* random) {
  std::uniform_int_distribution<int> length(1, 40), percent(5, 100);
  StageModel model;
  model.stage = length(*random);
  model.group = length(*random) / 8;
  for (int op = 0; op < num_ops; ++op) {
    model.length.push_back(length(*random));
    model.work.push_back(std::floor(model.length.back() * percent(*random) / 100));
  }
  const double discount = percent(*random) / 100.0;
  model.merged = [model, discount](const std::vector<int>& ops) {
    double work = 0;
    for (int op : ops) work += model.work[op] + model.length[op] / 2;
    return model.stage + std::floor(discount * work);
  };
  return model;
}

std::vector<double> Prices(const Dag& dag, const StageModel& model, const CandidateBatch& batch) {
  std::vector<double> prices;
  for (size_t i = 0; i < batch.size(); ++i) {
    std::vector<int> ops;
    for (int op = 0; op < dag.num_ops(); ++op) {
      if ((batch.ops[i * batch.words + op / 64] >> (op % 64) & 1) != 0) ops.push_back(op);
    }
    prices.push_back(StageCost(dag, model, ops, static_cast<Strategy>(batch.strategies[i])));
  }
  return prices;
}

/*! \brief Every operator once, none before its predecessors, and the sum of what stages cost. */
void ExpectSchedule(const Dag& dag, const StageModel& model, const SearchResult& result) {
  std::set<int> done;
  double total = 0;
  for (const auto& [ops, strategy] : result.stages) {
    for (int op : ops) EXPECT_TRUE(done.insert(op).second);
    for (int op : ops) {
      for (int before : dag.predecessors(op)) EXPECT_EQ(done.count(before), 1U);
    }
    total += StageCost(dag, model, ops, strategy);
  }
  EXPECT_EQ(done.size(), static_cast<size_t>(dag.num_ops()));
  EXPECT_EQ(total, result.latency);
}

TEST(BoundedTest, FindsWhatThePlainSearchFinds) {
  std::mt19937 random(0);
  for (int round = 0; round < 400; ++round) {
    const int num_ops = 1 + static_cast<int>(random() % 11);
    const Dag dag = RandomDag(num_ops, 0.1 + 0.1 * (round % 6), &random);
    SearchOptions options{{1 + random() % 4, 1 + random() % 5}, {}};
    if (round % 3 == 0) options.pruning = {11, 11};
    if (round % 2 == 0) {
      for (int op = 0; op < num_ops; ++op) {
        options.merge_class.push_back(static_cast<int64_t>(random() % 4) - 1);
      }
    }
    const StageModel model = RandomModel(num_ops, &random);
    const SearchResult plain = FindSchedule(
        dag, options, [&](const CandidateBatch& batch) { return Prices(dag, model, batch); }, {});
    const BoundedResult bounded = FindBoundedSchedule(dag, options, model, kForever, {});
    EXPECT_EQ(bounded.result.latency, plain.latency) << "round " << round;
    EXPECT_TRUE(bounded.proved);
    EXPECT_EQ(bounded.lower_bound, plain.latency);
    ExpectSchedule(dag, model, bounded.result);
  }
}

TEST(BoundedTest, LooksAtLessThanThePlainSearch) {
  std::mt19937 random(1);
  const Dag dag = RandomDag(16, 0.2, &random);
  const StageModel model = RandomModel(16, &random);
  const SearchOptions options{{16, 16}, {}};
  const SearchResult plain = FindSchedule(
      dag, options, [&](const CandidateBatch& batch) { return Prices(dag, model, batch); }, {});
  const BoundedResult bounded = FindBoundedSchedule(dag, options, model, kForever, {});
  EXPECT_EQ(bounded.result.latency, plain.latency);
  EXPECT_LT(bounded.result.states, plain.states);
}

TEST(BoundedTest, StatesTheGapWhereTimeIsShort) {
  std::mt19937 random(2);
  const Dag dag = RandomDag(60, 0.02, &random);
  const StageModel model = RandomModel(60, &random);
  const BoundedResult bounded = FindBoundedSchedule(dag, {{60, 60}, {}}, model, 0.05, {});
  EXPECT_FALSE(bounded.proved);
  EXPECT_LT(bounded.lower_bound, bounded.result.latency);
  EXPECT_GT(bounded.lower_bound, 0);
  ExpectSchedule(dag, model, bounded.result);
}

TEST(BoundedTest, ChecksItsArguments) {
  const Dag dag(2, {{0, 1}});
  StageModel model;
  EXPECT_THROW(FindBoundedSchedule(dag, {{1, 1}, {}}, model, 1, {}), OptionError);
  model.length = model.work = {1, 2};
  EXPECT_THROW(FindBoundedSchedule(dag, {{0, 1}, {}}, model, 1, {}), OptionError);
  EXPECT_THROW(FindBoundedSchedule(dag, {{1, 1}, {0, 0}}, model, 1, {}), OptionError);
  EXPECT_THROW(FindBoundedSchedule(dag, {{1, 1}, {}, {{0}}}, model, 1, {}), OptionError);
  EXPECT_EQ(FindBoundedSchedule(dag, {{1, 1}, {}}, model, 1, {}).result.latency, 3);
}

TEST(BoundedTest, RefusesWhatIsNoStage) {
  StageModel model;
  model.length = model.work = {1, 2};
  model.merged = [](const std::vector<int>& ops) { return static_cast<double>(ops.size()); };
  for (const std::vector<int>& ops : {std::vector<int>{}, {2}, {-1}, {0, 0}}) {
    for (Strategy strategy : {Strategy::kMerge, Strategy::kConcurrent}) {
      EXPECT_THROW(StageCost(Dag(2, {}), model, ops, strategy), GraphError);
    }
  }
}

TEST(BoundedTest, RefusesModelsOfOtherTimes) {
  StageModel model;
  model.length = {1, 2};
  model.work = {1, 2};
  CheckModel(Dag(2, {}), model);
  EXPECT_THROW(CheckModel(Dag(3, {}), model), OptionError);
  for (double bad : {-1.0, std::nan(""), std::numeric_limits<double>::infinity()}) {
    for (double* time : {&model.stage, &model.group, &model.length[1], &model.work[0]}) {
      const double good = std::exchange(*time, bad);
      EXPECT_THROW(CheckModel(Dag(2, {}), model), OptionError);
      *time = good;
    }
  }
  for (double bad : {-1.0, std::nan("")}) {
    model.merged = [bad](const std::vector<int>& /*ops*/) { return bad; };
    EXPECT_THROW(FindBoundedSchedule(Dag(2, {}), {{1, 1}, {0, 0}}, model, 1, {}), OptionError);
  }
}

}  // namespace
}  // namespace tvm_ios
