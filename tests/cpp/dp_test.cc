// SPDX-License-Identifier: Apache-2.0
#include "search/dp.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "find_schedule.h"
#include "graph/components.h"
#include "random_dag.h"
#include "support/error.h"

namespace tvm_ios {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/*! \brief A latency of 1..50 for every stage, infinite for one in eight of those of many groups. */
double RandomLatency(uint64_t ops, int32_t strategy) {
  std::mt19937_64 random(ops * 2 + static_cast<uint64_t>(strategy));
  random.discard(1);
  if ((ops & (ops - 1)) != 0 && random() % 8 == 0) return kInfinity;
  return 1.0 + static_cast<double>(random() % 50);
}

std::vector<double> RandomCost(const CandidateBatch& batch) {
  std::vector<double> latency;
  for (size_t i = 0; i < batch.size(); ++i) {
    latency.push_back(RandomLatency(batch.ops[i * batch.words], batch.strategies[i]));
  }
  return latency;
}

std::vector<double> CountStages(const CandidateBatch& batch) {
  return std::vector<double>(batch.size(), 1.0);
}

/*! \brief The least latency over all schedules, by trying each of them. */
class BruteForce {
 public:
  BruteForce(const Dag& dag, const SearchOptions& options) : dag_(dag), options_(options) {}

  double Best(uint32_t remaining) const {
    if (remaining == 0) return 0.0;
    double best = kInfinity;
    for (uint32_t stage = remaining; stage != 0; stage = (stage - 1) & remaining) {
      if (!IsClosed(dag_, stage, remaining)) continue;
      double latency = kInfinity;
      if (MayRunConcurrently(stage)) latency = RandomLatency(stage, 0);
      if (MayMerge(stage)) latency = std::min(latency, RandomLatency(stage, 1));
      if (latency < kInfinity) best = std::min(best, latency + Best(remaining & ~stage));
    }
    return best;
  }

 private:
  bool MayRunConcurrently(uint32_t stage) const {
    const auto groups = Components(dag_, Members(stage));
    return groups.size() <= options_.pruning.max_num_groups &&
           std::all_of(groups.begin(), groups.end(), [&](const auto& group) {
             return group.size() <= options_.pruning.max_group_size;
           });
  }
  bool MayMerge(uint32_t stage) const {
    const std::vector<int> ops = Members(stage);
    const auto& given = options_.replacements;
    if (std::find(given.begin(), given.end(), ops) != given.end()) return true;
    return Components(dag_, ops).size() == ops.size() &&
           std::all_of(ops.begin(), ops.end(), [&](int op) {
             return options_.merge_class[op] >= 0 &&
                    options_.merge_class[op] == options_.merge_class[ops[0]];
           });
  }

  const Dag& dag_;
  const SearchOptions& options_;
};

TEST(FindSchedule, IsOptimal) {
  std::mt19937 random(6);
  for (int round = 0; round < 150; ++round) {
    const Dag dag = RandomDag(1 + round % 7, 0.1 * (round % 5), &random);
    SearchOptions options{{1 + random() % 4, 1 + random() % 4}, {}};
    for (int op = 0; op < dag.num_ops(); ++op) {
      options.merge_class.push_back(static_cast<int64_t>(random() % 3) - 1);
    }
    for (int i = 0; i < round % 4; ++i) {
      options.replacements.push_back(Members(1 + random() % ((1u << dag.num_ops()) - 1)));
    }
    const SearchResult result = FindSchedule(dag, options, RandomCost, nullptr);
    EXPECT_EQ(result.latency, BruteForce(dag, options).Best((1u << dag.num_ops()) - 1));
    double sum = 0.0;
    std::vector<int> ops;
    for (const auto& [stage, strategy] : result.stages) {
      uint64_t bits = 0;
      for (int op : stage) bits |= uint64_t{1} << op;
      sum += RandomLatency(bits, static_cast<int32_t>(strategy));
      ops.insert(ops.end(), stage.begin(), stage.end());
    }
    EXPECT_EQ(sum, result.latency);
    std::sort(ops.begin(), ops.end());
    EXPECT_EQ(ops, Members((1u << dag.num_ops()) - 1));
  }
}

/*! \brief The least latency over all schedules that have a certain stage, by trying each of them.
 */
double CheapestWith(const Dag& dag, const CandidateBatch& batch, const std::vector<double>& latency,
                    size_t wanted, bool had, uint64_t remaining) {
  if (remaining == 0) return had ? 0.0 : kInfinity;
  double best = kInfinity;
  for (size_t i = 0; i < batch.size(); ++i) {
    if ((batch.ops[i] & ~remaining) != 0) continue;
    if (!IsClosed(dag, static_cast<uint32_t>(batch.ops[i]), static_cast<uint32_t>(remaining))) {
      continue;
    }
    const double rest =
        CheapestWith(dag, batch, latency, wanted, had || i == wanted, remaining & ~batch.ops[i]);
    best = std::min(best, latency[i] + rest);
  }
  return best;
}

TEST(Through, IsTheCheapestScheduleWithTheStage) {
  std::mt19937 random(9);
  for (int round = 0; round < 40; ++round) {
    const Dag dag = RandomDag(1 + round % 5, 0.1 * (round % 5), &random);
    const auto space = Explore(dag, {{2, 3}, {}}, nullptr);
    const CandidateBatch batch = space->Candidates();
    const std::vector<double> latency = RandomCost(batch);
    const std::vector<double> through = space->Through(latency);
    ASSERT_EQ(through.size(), batch.size());
    for (size_t i = 0; i < batch.size(); ++i) {
      const uint64_t all = (uint64_t{1} << dag.num_ops()) - 1;
      EXPECT_EQ(through[i], CheapestWith(dag, batch, latency, i, false, all));
    }
  }
}

TEST(Explore, EndsAtTheMostTransitions) {
  SearchOptions options{{2, 1}, {}, {}};
  options.max_transitions = 7;
  EXPECT_NE(Explore(Chain(4), options, nullptr), nullptr);
  options.max_transitions = 6;
  EXPECT_THROW(Explore(Chain(4), options, nullptr), OptionError);
}

TEST(FindSchedule, CountsStatesTransitionsAndEvaluations) {
  const SearchResult result = FindSchedule(Chain(4), {{2, 1}, {}}, CountStages, nullptr);
  EXPECT_EQ(result.states, 4);
  EXPECT_EQ(result.transitions, 7);
  EXPECT_EQ(result.evaluations, 7);
  EXPECT_EQ(result.latency, 2.0);
}

TEST(FindSchedule, PrefersFewStagesThenConcurrency) {
  const auto free_of_charge = [](const CandidateBatch& batch) {
    return std::vector<double>(batch.size(), 0.0);
  };
  const SearchResult result =
      FindSchedule(Dag(3, {}), {{3, 3}, {0, 0, 0}}, free_of_charge, nullptr);
  ASSERT_EQ(result.stages.size(), 1u);
  EXPECT_EQ(result.stages[0].strategy, Strategy::kConcurrent);
  EXPECT_EQ(result.stages[0].ops, (std::vector<int>{0, 1, 2}));
}

TEST(FindSchedule, MergesSinksBeyondThePruning) {
  const auto merging_pays = [](const CandidateBatch& batch) {
    std::vector<double> latency;
    for (int32_t strategy : batch.strategies) latency.push_back(strategy == 1 ? 1.0 : 10.0);
    return latency;
  };
  const Dag dag(6, {{0, 1}, {0, 2}, {0, 3}, {0, 4}, {0, 5}});
  const SearchResult result =
      FindSchedule(dag, {{1, 1}, {-1, 7, 7, 7, 7, 7}}, merging_pays, nullptr);
  ASSERT_EQ(result.stages.size(), 2u);
  EXPECT_EQ(result.stages[1].strategy, Strategy::kMerge);
  EXPECT_EQ(result.stages[1].ops, (std::vector<int>{1, 2, 3, 4, 5}));
}

TEST(FindSchedule, ReplacesOperatorsThatReadEachOther) {
  const auto replacing_pays = [](const CandidateBatch& batch) {
    std::vector<double> latency;
    for (int32_t strategy : batch.strategies) latency.push_back(strategy == 1 ? 1.0 : 10.0);
    return latency;
  };
  const Dag dag(5, {{0, 1}, {1, 3}, {2, 3}, {0, 4}});
  const SearchOptions options{{1, 1}, {}, {{0, 1}, {1, 2, 3}}};
  const SearchResult result = FindSchedule(dag, options, replacing_pays, nullptr);
  EXPECT_EQ(result.latency, 21.0);  // {0, 1} would have to come after 2, 3 and 4, one by one
  const auto merged = std::find_if(result.stages.begin(), result.stages.end(),
                                   [](const auto& s) { return s.strategy == Strategy::kMerge; });
  ASSERT_NE(merged, result.stages.end());
  EXPECT_EQ(merged->ops, (std::vector<int>{1, 2, 3}));
}

TEST(FindSchedule, TakesGraphsOfAnyWidth) {
  for (int num_ops : {1, 63, 64, 65, 128, 129, 192, 256, 257, 400}) {
    const SearchResult result = FindSchedule(Chain(num_ops), {{3, 8}, {}}, CountStages, nullptr);
    EXPECT_EQ(result.states, num_ops);
    EXPECT_EQ(result.latency, std::ceil(num_ops / 3.0));
  }
}

TEST(FindSchedule, RefusesBadOptions) {
  const Dag dag = Chain(3);
  EXPECT_THROW(FindSchedule(dag, {{0, 8}, {}}, CountStages, nullptr), OptionError);
  EXPECT_THROW(FindSchedule(dag, {{3, 0}, {}}, CountStages, nullptr), OptionError);
  EXPECT_THROW(FindSchedule(dag, {{3, 8}, {0, 1}}, CountStages, nullptr), OptionError);
  EXPECT_THROW(FindSchedule(dag, {{3, 8}, {}, {{0, 3}}}, CountStages, nullptr), OptionError);
  EXPECT_THROW(FindSchedule(dag, {{3, 8}, {}, {{}}}, CountStages, nullptr), OptionError);
}

TEST(FindSchedule, RefusesWhatIsNoLatency) {
  for (double latency : {-1.0, std::nan(""), -kInfinity}) {
    const auto cost = [&](const CandidateBatch& batch) {
      return std::vector<double>(batch.size(), latency);
    };
    EXPECT_THROW(FindSchedule(Chain(3), {{3, 8}, {}}, cost, nullptr), CostError);
  }
  const auto one_short = [](const CandidateBatch& batch) {
    return std::vector<double>(batch.size() - 1, 1.0);
  };
  EXPECT_THROW(FindSchedule(Chain(3), {{3, 8}, {}}, one_short, nullptr), CostError);
}

TEST(FindSchedule, SaysThatNothingCanRun) {
  const auto never = [](const CandidateBatch& batch) {
    return std::vector<double>(batch.size(), kInfinity);
  };
  EXPECT_THROW(FindSchedule(Chain(3), {{3, 8}, {}}, never, nullptr), ScheduleError);
}

TEST(FindSchedule, CanBeInterrupted) {
  struct Stop {};
  const auto stop = [] { throw Stop(); };
  EXPECT_THROW(FindSchedule(Dag(60, {}), {{60, 60}, {}}, CountStages, stop), Stop);
}

TEST(EndingsOf, ChecksTheRemainingOperators) {
  EXPECT_EQ(Endings(Chain(3), {0, 1}, {3, 8}, nullptr).ops, (std::vector<uint64_t>{0b11, 0b10}));
  EXPECT_EQ(Endings(Chain(3), {}, {3, 8}, nullptr).size(), 0u);
  EXPECT_THROW(Endings(Chain(3), {1}, {3, 8}, nullptr), GraphError);
  EXPECT_THROW(Endings(Chain(3), {3}, {3, 8}, nullptr), GraphError);
  EXPECT_THROW(Endings(Chain(3), {0}, {0, 8}, nullptr), OptionError);
}

}  // namespace
}  // namespace tvm_ios
