// SPDX-License-Identifier: Apache-2.0
#include "search/best_first.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <memory>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include "find_schedule.h"
#include "random_dag.h"
#include "support/error.h"

namespace tvm_ios {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr SearchBudget kUnlimited{SIZE_MAX, SIZE_MAX, 1e30};

/*! \brief Prices of stages of fewer than 64 operators: whole numbers, so that sums are exact. */
class RandomPrices {
 public:
  RandomPrices(int num_ops, double floor_share, std::mt19937* random) : seed_((*random)()) {
    for (int op = 0; op < num_ops; ++op)
      floors_.push_back(std::floor(floor_share * static_cast<double>((*random)())));
    for (double& floor : floors_) floor = std::fmod(floor, 20);
  }

  const std::vector<double>& floors() const { return floors_; }

  /*! \brief A merged stage may cost less than its floors; one of several may be impossible. */
  double operator()(uint64_t ops, int32_t strategy) const {
    std::seed_seq seeds{seed_, static_cast<uint32_t>(ops), static_cast<uint32_t>(ops >> 32),
                        static_cast<uint32_t>(strategy)};
    std::mt19937 random(seeds);
    const bool is_single = (ops & (ops - 1)) == 0;
    if (!is_single && random() % 8 == 0) return kInfinity;
    double price = static_cast<double>(random() % 30);
    for (size_t op = 0; strategy == 0 && op < floors_.size(); ++op) {
      if ((ops >> op & 1) != 0) price += floors_[op];
    }
    return price;
  }

  std::vector<double> operator()(const CandidateBatch& batch) const {
    std::vector<double> prices;
    for (size_t i = 0; i < batch.size(); ++i) {
      prices.push_back((*this)(batch.ops[i], batch.strategies[i]));
    }
    return prices;
  }

 private:
  const uint32_t seed_;
  std::vector<double> floors_;
};

uint64_t Mask(const Candidate& stage) {
  uint64_t mask = 0;
  for (int op : stage.ops) mask |= uint64_t{1} << op;
  return mask;
}

/*! \brief Every operator once, none before its predecessors, and the sum of the prices. */
void ExpectSchedule(const Dag& dag, const RandomPrices& prices, const SearchResult& result) {
  uint64_t done = 0;
  double total = 0;
  for (const Candidate& stage : result.stages) {
    const uint64_t ops = Mask(stage);
    EXPECT_EQ(done & ops, 0U);
    done |= ops;
    for (int op = 0; op < dag.num_ops(); ++op) {
      if ((ops >> op & 1) == 0) continue;
      for (int before : dag.predecessors(op)) EXPECT_EQ(done >> before & 1, 1U);
    }
    total += prices(ops, static_cast<int32_t>(stage.strategy));
  }
  EXPECT_EQ(done, (uint64_t{1} << dag.num_ops()) - 1);
  EXPECT_EQ(total, result.latency);
}

SearchOptions RandomOptions(int num_ops, int round, std::mt19937* random) {
  SearchOptions options{{1 + (*random)() % 9, 1 + (*random)() % 6}};
  for (int op = 0; round % 2 == 0 && op < num_ops; ++op) {
    options.merge_class.push_back(static_cast<int64_t>((*random)() % 4) - 1);
  }
  for (int i = 0; i < round % 4; ++i) {
    const uint32_t set = 1 + (*random)() % ((1U << num_ops) - 1);
    options.replacements.push_back(Members(set));
  }
  return options;
}

struct Problem {
  Dag dag;
  SearchOptions options;
  RandomPrices prices;
  SearchResult plain;
};

Problem RandomProblem(int round, std::mt19937* random) {
  const int num_ops = 1 + static_cast<int>((*random)() % 10);
  Dag dag = RandomDag(num_ops, 0.1 + 0.1 * (round % 6), random);
  SearchOptions options = RandomOptions(num_ops, round, random);
  RandomPrices prices(num_ops, round % 3 == 0 ? 0 : 1, random);
  SearchResult plain = FindSchedule(dag, options, prices, {});
  return {std::move(dag), std::move(options), std::move(prices), std::move(plain)};
}

BoundedResult Find(const Problem& problem, const SearchBudget& budget, const Schedule& known = {}) {
  return FindBestFirst(problem.dag, problem.options, problem.prices.floors(), known, budget,
                       problem.prices, {});
}

TEST(BestFirstTest, FindsWhatThePlainSearchFinds) {
  std::mt19937 random(0);
  for (int round = 0; round < 500; ++round) {
    const Problem problem = RandomProblem(round, &random);
    const BoundedResult found = Find(problem, kUnlimited);
    EXPECT_EQ(found.result.latency, problem.plain.latency) << "round " << round;
    EXPECT_TRUE(found.proved) << "round " << round;
    EXPECT_EQ(found.lower_bound, problem.plain.latency);
    ExpectSchedule(problem.dag, problem.prices, found.result);
  }
}

TEST(BestFirstTest, TheBoundHoldsWithinEveryBudget) {
  std::mt19937 random(1);
  int unproved = 0;
  for (int round = 0; round < 500; ++round) {
    const Problem problem = RandomProblem(round, &random);
    const SearchBudget budget{random() % 60, random() % 60, 1e30};
    const BoundedResult found = Find(problem, budget);
    EXPECT_LE(found.lower_bound, problem.plain.latency) << "round " << round;
    EXPECT_LE(problem.plain.latency, found.result.latency) << "round " << round;
    EXPECT_EQ(found.proved, found.lower_bound == found.result.latency);
    EXPECT_LE(found.result.transitions, static_cast<int64_t>(budget.max_transitions));
    ExpectSchedule(problem.dag, problem.prices, found.result);
    unproved += !found.proved;
  }
  EXPECT_GT(unproved, 100);
}

TEST(BestFirstTest, IsNeverWorseThanTheKnownSchedule) {
  std::mt19937 random(2);
  for (int round = 0; round < 100; ++round) {
    const Problem problem = RandomProblem(round, &random);
    const BoundedResult found = Find(problem, {0, 0, 1e30}, problem.plain.stages);
    EXPECT_EQ(found.result.latency, problem.plain.latency);
    ExpectSchedule(problem.dag, problem.prices, found.result);
  }
}

TEST(BestFirstTest, AsksForEachPriceOnce) {
  std::mt19937 random(3);
  const Problem problem = RandomProblem(4, &random);
  std::set<std::pair<uint64_t, int32_t>> asked;
  const Prices prices = [&](const CandidateBatch& batch) {
    for (size_t i = 0; i < batch.size(); ++i) {
      EXPECT_TRUE(asked.emplace(batch.ops[i], batch.strategies[i]).second);
    }
    return problem.prices(batch);
  };
  const BoundedResult found = FindBestFirst(problem.dag, problem.options, problem.prices.floors(),
                                            {}, kUnlimited, prices, {});
  EXPECT_EQ(found.result.evaluations, static_cast<int64_t>(asked.size()));
}

TEST(BestFirstTest, ImprovesWithItsBudgetAndDoesNotDependOnTime) {
  std::mt19937 random(4);
  const Dag dag = RandomDag(50, 0.08, &random);
  const RandomPrices prices(50, 1, &random);
  const SearchOptions options{{3, 8}};
  std::vector<double> latencies;
  for (size_t transitions : {0, 20000, 400000}) {
    const auto find = [&] {
      return FindBestFirst(dag, options, prices.floors(), {}, {transitions, 20000, 1e30}, prices,
                           {});
    };
    const BoundedResult found = find(), again = find();
    EXPECT_LE(found.lower_bound, found.result.latency);
    EXPECT_EQ(found.result.stages.size(), again.result.stages.size());
    EXPECT_EQ(found.result.latency, again.result.latency);
    EXPECT_EQ(found.lower_bound, again.lower_bound);
    ExpectSchedule(dag, prices, found.result);
    latencies.push_back(found.result.latency);
  }
  EXPECT_GE(latencies[0], latencies[1]);
  EXPECT_GT(latencies[1], latencies[2]);
}

TEST(BestFirstTest, LowersFloorsThatAPriceRefutes) {
  const Dag dag(4, {});
  const Prices prices = [](const CandidateBatch& batch) {
    std::vector<double> seconds;
    for (uint64_t ops : batch.ops) {
      const bool is_single = (ops & (ops - 1)) == 0;
      seconds.push_back(ops == 0b1001 ? 1 : is_single ? 12 : 21);
    }
    return seconds;
  };
  const BoundedResult found =
      FindBestFirst(dag, {{1, 2}}, {10, 10, 10, 10}, {}, kUnlimited, prices, {});
  EXPECT_EQ(found.result.latency, 22);
  EXPECT_EQ(found.lower_bound, 22);
  EXPECT_TRUE(found.proved);
}

TEST(BestFirstTest, UnknownStagesMayBeAsGoodAsTheBestKnownOne) {
  const Prices prices = [](const CandidateBatch& batch) {
    std::vector<double> seconds;
    for (uint64_t ops : batch.ops) seconds.push_back(ops == 0b0011 ? 5 : 20);
    return seconds;
  };
  const BoundedResult found =
      FindBestFirst(Dag(4, {}), {{1, 2}}, {10, 10, 10, 10}, {}, {0, 0, 1e30}, prices, {});
  EXPECT_EQ(found.result.latency, 25);  // the greedy schedule
  EXPECT_NEAR(found.lower_bound, 10, 1e-6);
}

TEST(BestFirstTest, EndsWhenTimeIsUpAndWhenInterrupted) {
  std::mt19937 random(5);
  const Dag dag = RandomDag(60, 0.02, &random);
  const RandomPrices prices(60, 1, &random);
  const SearchOptions options{{60, 60}};
  const BoundedResult found =
      FindBestFirst(dag, options, prices.floors(), {}, {SIZE_MAX, SIZE_MAX, 0}, prices, {});
  EXPECT_FALSE(found.proved);
  ExpectSchedule(dag, prices, found.result);
  struct Interrupted {};
  EXPECT_THROW(FindBestFirst(dag, options, prices.floors(), {}, kUnlimited, prices,
                             [] { throw Interrupted{}; }),
               Interrupted);
}

/*! \brief Search on with the prices of new candidates until the search ends. */
BoundedResult Finish(BestFirst* search, const Prices& prices) {
  while (!search->Advance({})) search->Price(prices(search->Candidates(search->num_priced())));
  return search->Result();
}

TEST(BestFirstTest, IsRepeatedWithOtherPrices) {
  std::mt19937 random(6);
  for (int round = 0; round < 200; ++round) {
    const Problem problem = RandomProblem(round, &random);
    const Prices dearer = [&](const CandidateBatch& batch) {
      std::vector<double> seconds = problem.prices(batch);
      for (size_t i = 0; i < seconds.size(); ++i)
        seconds[i] += static_cast<double>(batch.ops[i] % 7);
      return seconds;
    };
    const auto search =
        MakeBestFirst(problem.dag, problem.options, problem.prices.floors(), kUnlimited);
    search->Begin({}, {}, false);
    EXPECT_EQ(Finish(search.get(), problem.prices).result.latency, problem.plain.latency);
    search->Begin(dearer(search->Candidates(0)), {}, false);
    const BoundedResult found = Finish(search.get(), dearer);
    EXPECT_TRUE(found.proved);
    EXPECT_EQ(found.result.latency, FindSchedule(problem.dag, problem.options, dearer, {}).latency)
        << "round " << round;
  }
}

TEST(BestFirstTest, MayConsiderOnlyPricedStages) {
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    const Problem problem = RandomProblem(round, &random);
    const Prices few = [&](const CandidateBatch& batch) {
      std::vector<double> seconds = problem.prices(batch);
      for (size_t i = 0; i < seconds.size(); ++i) {
        const bool is_single = (batch.ops[i] & (batch.ops[i] - 1)) == 0;
        if (!is_single && batch.ops[i] % 3 != 0) seconds[i] = kInfinity;
      }
      return seconds;
    };
    const auto search =
        MakeBestFirst(problem.dag, problem.options, problem.prices.floors(), kUnlimited);
    search->Begin({}, {}, false);
    Finish(search.get(), [](const CandidateBatch& batch) {
      return std::vector<double>(batch.size(), 1.0);  // so that it meets all
    });
    const SearchResult plain = FindSchedule(problem.dag, problem.options, few, {});
    search->Begin(few(search->Candidates(0)), {}, true);
    const BoundedResult found = Finish(search.get(), few);
    EXPECT_LE(plain.latency, found.result.latency) << "round " << round;
    const CandidateBatch batch = search->Candidates(0);
    if (static_cast<int64_t>(batch.size()) == plain.evaluations) {
      EXPECT_EQ(found.result.latency, plain.latency) << "round " << round;
    }
  }
}

TEST(BestFirstTest, SearchesSideBySideFindWhatEachFindsAlone) {
  std::mt19937 random(8);
  std::vector<Problem> problems;
  std::vector<std::unique_ptr<BestFirst>> owned;
  std::vector<BestFirst*> searches;
  for (int round = 0; round < 60; ++round) {
    problems.push_back(RandomProblem(round, &random));
    const Problem& problem = problems.back();
    owned.push_back(
        MakeBestFirst(problem.dag, problem.options, problem.prices.floors(), kUnlimited));
    searches.push_back(owned.back().get());
    searches.back()->Begin({}, {}, false);
  }
  for (size_t left = 1; left > 0;) {
    const std::vector<bool> ended = AdvanceAll(searches, 3, {});
    left = 0;
    for (size_t i = 0; i < searches.size(); ++i) {
      if (ended[i]) continue;
      ++left;
      searches[i]->Price(problems[i].prices(searches[i]->Candidates(searches[i]->num_priced())));
    }
  }
  for (size_t i = 0; i < searches.size(); ++i) {
    const SearchResult found = searches[i]->Result().result,
                       alone = Find(problems[i], kUnlimited).result;
    EXPECT_EQ(found.latency, alone.latency);
    EXPECT_EQ(found.transitions, alone.transitions);
    EXPECT_EQ(found.stages.size(), alone.stages.size());
  }
}

TEST(BestFirstTest, OneThatFailsEndsThoseBesideIt) {
  std::mt19937 random(9);
  const Dag dag = RandomDag(60, 0.02, &random);
  const SearchOptions options{{3, 60}};
  const auto free = MakeBestFirst(dag, options, std::vector<double>(60), kUnlimited);
  const auto other = MakeBestFirst(dag, options, std::vector<double>(60), kUnlimited);
  free->Begin({}, {}, false);
  EXPECT_THROW(AdvanceAll({free.get(), other.get()}, 2, {}), OptionError);  // it has not begun
  EXPECT_THROW(AdvanceAll({free.get(), free.get()}, 2, {}), OptionError);
  EXPECT_EQ(AdvanceAll({}, 2, {}).size(), 0U);
  other->Begin({}, {}, false);
  for (BestFirst* search : {free.get(), other.get()}) {
    EXPECT_FALSE(search->Advance({}));
    EXPECT_THROW(search->Price({1.0}), CostError);
    search->Price(std::vector<double>(search->Candidates(search->num_priced()).size(), 1.0));
  }
  struct Interrupted {};
  EXPECT_THROW(AdvanceAll({free.get(), other.get()}, 2, [] { throw Interrupted{}; }), Interrupted);
}

TEST(BestFirstTest, ChecksItsArguments) {
  const Dag dag(2, {{0, 1}});
  const auto find = [&](const std::vector<double>& floors, const Schedule& known, double price,
                        size_t extra, double seconds) {
    const Prices prices = [&](const CandidateBatch& batch) {
      return std::vector<double>(batch.size() + extra, price);
    };
    return FindBestFirst(dag, {{1, 1}}, floors, known, {9, 9, seconds}, prices, {});
  };
  EXPECT_EQ(find({0, 0}, {}, 1, 0, 1).result.latency, 2);
  for (const std::vector<double>& floors :
       {std::vector<double>{1}, {1, -1}, {1, kInfinity}, {1, std::nan("")}}) {
    EXPECT_THROW(find(floors, {}, 1, 0, 1), OptionError);
  }
  for (double price : {-1.0, std::nan("")}) EXPECT_THROW(find({0, 0}, {}, price, 0, 1), CostError);
  EXPECT_THROW(find({0, 0}, {}, 1, 1, 1), CostError);
  EXPECT_THROW(find({0, 0}, {}, kInfinity, 0, 1), ScheduleError);
  EXPECT_THROW(find({0, 0}, {}, 1, 0, -1), OptionError);
  const auto concurrent = Strategy::kConcurrent;
  const std::vector<Schedule> wrong = {
      {{{0}, concurrent}},
      {{{1}, concurrent}, {{0}, concurrent}},
      {{{0}, concurrent}, {{0}, concurrent}},
      {{{0}, concurrent}, {{2}, concurrent}},
      {{{0}, concurrent}, {{-1}, concurrent}},
      {{{0, 1}, concurrent}, {{}, concurrent}},
  };
  for (const auto& known : wrong) EXPECT_THROW(find({0, 0}, known, 1, 0, 1), GraphError);
}

}  // namespace
}  // namespace tvm_ios
