// SPDX-License-Identifier: Apache-2.0
#include "graph/waits.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <random>
#include <thread>
#include <vector>

namespace tvm_ios {
namespace {

constexpr int64_t kBytes = 48;
constexpr int64_t kMemories = 3;
constexpr int64_t kNoBarrier = 1 << 20;

using Memories = std::array<std::array<unsigned, kBytes>, kMemories>;

/*! \brief A program in which each level has a memory that all workers write a part of. */
struct Program {
  int64_t workers;
  std::vector<int64_t> levels;
  std::vector<Access> accesses;

  static Program Random(std::mt19937* random) {
    const auto below = [random](int64_t end) {
      return static_cast<int64_t>((*random)() % static_cast<uint64_t>(end));
    };
    Program program{1 + below(4), {}, {}};
    const int64_t positions = 1 + below(8);
    for (int64_t position = 0; position < positions; ++position) {
      program.levels.push_back(position);
      const int64_t written = below(kMemories);
      const int64_t runs = 1 + below(3);
      const int64_t stride = kBytes / runs;
      const int64_t part = stride / program.workers;
      for (int64_t worker = 0; worker < program.workers; ++worker) {
        program.accesses.push_back(
            {position, worker, written, worker * part, part, stride, runs, true});
        const int64_t read = (written + 1 + below(kMemories - 1)) % kMemories;
        program.accesses.push_back(
            {position, worker, read, below(kBytes / 2), 1 + below(8), 16, 1 + below(2), false});
      }
    }
    return program;
  }

  /*! \brief Write something that depends on all that the step reads. */
  void RunStep(int64_t position, int64_t worker, Memories* memories) const {
    unsigned value = static_cast<unsigned>(position * 31 + worker + 1);
    ForEach(position, worker, false, memories,
            [&value](unsigned* byte) { value = value * 1664525U + *byte; });
    ForEach(position, worker, true, memories,
            [&value](unsigned* byte) { *byte = value = value * 22695477U + 1U; });
  }

 private:
  template <typename Use>
  void ForEach(int64_t position, int64_t worker, bool writes, Memories* memories, Use use) const {
    for (const Access& access : accesses) {
      if (access.position != position || access.worker != worker || access.writes != writes) {
        continue;
      }
      for (int64_t run = 0; run < access.count; ++run) {
        for (int64_t byte = 0; byte < access.size; ++byte) {
          use(&(*memories)[access.memory][access.begin + run * access.stride + byte]);
        }
      }
    }
  }
};

Memories Sequentially(const Program& program) {
  Memories memories{};
  for (size_t position = 0; position < program.levels.size(); ++position) {
    for (int64_t worker = 0; worker < program.workers; ++worker) {
      program.RunStep(position, worker, &memories);
    }
  }
  return memories;
}

/*! \brief Run each worker in a thread; the threads wait as planned, and not otherwise. */
Memories InThreads(const Program& program, const WaitPlan& plan) {
  Memories memories{};
  std::vector<std::atomic<int64_t>> completed(program.workers);
  const auto wait = [&completed](int64_t other, int64_t needed) {
    while (completed[other].load(std::memory_order_acquire) < needed) std::this_thread::yield();
  };
  const auto run = [&](int64_t worker) {
    for (int64_t position = 0; position < static_cast<int64_t>(program.levels.size()); ++position) {
      if (std::count(plan.barriers.begin(), plan.barriers.end(), position) > 0) {
        for (int64_t other = 0; other < program.workers; ++other) wait(other, position);
      }
      for (const Wait& planned : plan.waits) {
        if (planned.position == position && planned.worker == worker) {
          wait(planned.other, planned.completed);
        }
      }
      program.RunStep(position, worker, &memories);
      completed[worker].store(position + 1, std::memory_order_release);
    }
  };
  std::vector<std::thread> threads;
  for (int64_t worker = 0; worker < program.workers; ++worker) threads.emplace_back(run, worker);
  for (std::thread& thread : threads) thread.join();
  return memories;
}

TEST(Waits, ThreadsThatWaitAsPlannedComputeTheSame) {
  std::mt19937 random(0);
  for (int trial = 0; trial < 300; ++trial) {
    const Program program = Program::Random(&random);
    const int64_t max_waits = trial % 3 == 0 ? 1 : kNoBarrier;
    const WaitPlan plan = PlanWaits(program.workers, program.levels, program.accesses, max_waits);
    ASSERT_EQ(InThreads(program, plan), Sequentially(program)) << "in trial " << trial;
  }
}

TEST(Waits, AWorkerWaitsForNobodyWithoutReason) {
  const std::vector<Access> apart{{0, 0, 0, 0, 8, 0, 1, true},
                                  {0, 1, 0, 8, 8, 0, 1, true},
                                  {1, 0, 0, 0, 8, 0, 1, false},
                                  {1, 1, 0, 8, 8, 0, 1, false}};
  const WaitPlan plan = PlanWaits(2, {0, 1}, apart, kNoBarrier);
  EXPECT_TRUE(plan.barriers.empty());
  EXPECT_TRUE(plan.waits.empty());
}

}  // namespace
}  // namespace tvm_ios
