// SPDX-License-Identifier: Apache-2.0
/*!
 * \file claims_support.h
 * \brief Programs of units that check their waits.
 */
#ifndef TVM_IOS_TESTS_CPP_CLAIMS_SUPPORT_H_
#define TVM_IOS_TESTS_CPP_CLAIMS_SUPPORT_H_

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <random>
#include <thread>
#include <vector>

#include "runtime/launch/pool.h"

namespace tvm_ios {

/*! \brief The tables of a program, and the numbers that its units compute. */
class TestProgram {
 public:
  explicit TestProgram(int32_t num_columns) : columns_(num_columns) {}

  /*! \brief Add a part to a column; waits are pairs of a column and its completed parts. */
  void Add(int32_t column, int32_t num_units, bool chain, const std::vector<PartWait>& waits,
           int32_t barrier = -1) {
    columns_[column].push_back({num_units, chain, waits, barrier});
  }

  /*! \brief Add a barrier at what has been added so far, and return its number. */
  int32_t AddBarrier() {
    for (const auto& parts : columns_) barriers_.push_back(static_cast<int32_t>(parts.size()));
    return static_cast<int32_t>(barriers_.size() / columns_.size()) - 1;
  }

  /*! \brief Return the size of a column. */
  int32_t size(int32_t column) const { return static_cast<int32_t>(columns_[column].size()); }

  /*! \brief Return the tables; no part is added afterwards. */
  const ClaimProgram* Finish(ClaimProgram::Function function) {
    for (const auto& column : columns_) {
      first_part_.push_back(static_cast<int32_t>(parts_.size()));
      for (const PartSpec& spec : column) AddPart(spec);
    }
    first_part_.push_back(static_cast<int32_t>(parts_.size()));
    values.assign(units_.size(), 0);
    counts = std::vector<std::atomic<int32_t>>(units_.size());
    functions_ = {function};
    program_ = {ClaimProgram::kVersion,
                static_cast<int32_t>(columns_.size()),
                -1,
                0,
                first_part_.data(),
                parts_.data(),
                units_.data(),
                waits_.data(),
                barriers_.data(),
                functions_.data(),
                &history_};
    return &program_;
  }

  ClaimProgram* program() { return &program_; }
  CallHistory* history() { return &history_; }
  size_t num_units() const { return units_.size(); }

  /*! \brief Compute a unit from the units that its part waits for, which must be completed. */
  void RunUnit(int32_t unit) {
    uint32_t value = static_cast<uint32_t>(unit) * 2654435761U + 1U;
    const Part& part = parts_[part_of_[unit]];
    const int32_t before = part_of_[unit] - 1;
    if (part_of_[unit] > first_part_[column_of(part_of_[unit])]) value += Sum(before);
    for (int32_t w = part.first_wait; w < part.first_wait + part.num_waits; ++w) {
      value = value * 31U + Sum(first_part_[waits_[w].column] + waits_[w].completed - 1);
    }
    for (size_t c = 0; part.barrier >= 0 && c < columns_.size(); ++c) {
      const int32_t completed = barriers_[part.barrier * columns_.size() + c];
      if (completed > 0) value = value * 33U + Sum(first_part_[c] + completed - 1);
    }
    if (part.chain != 0 && unit > part.first_unit) value += values[unit - 1];
    values[unit] = value;
    counts[unit].fetch_add(1, std::memory_order_relaxed);
  }

  /*! \brief Plain numbers, so that ThreadSanitizer sees an access that nothing orders. */
  std::vector<uint32_t> values;
  std::vector<std::atomic<int32_t>> counts;
  std::atomic<uint32_t> delays{0};  // the seed of random delays; 0 for none

 private:
  struct PartSpec {
    int32_t num_units;
    bool chain;
    std::vector<PartWait> waits;
    int32_t barrier;
  };

  void AddPart(const PartSpec& spec) {
    parts_.push_back({static_cast<int32_t>(units_.size()), spec.num_units,
                      static_cast<int32_t>(waits_.size()), static_cast<int32_t>(spec.waits.size()),
                      spec.barrier, spec.chain ? 1 : 0});
    for (int32_t i = 0; i < spec.num_units; ++i) {
      const auto number = static_cast<int32_t>(units_.size());
      units_.push_back({0, number, number + 1, 0});
      part_of_.push_back(static_cast<int32_t>(parts_.size()) - 1);
    }
    waits_.insert(waits_.end(), spec.waits.begin(), spec.waits.end());
  }

  int32_t column_of(int32_t part) const {
    int32_t column = 0;
    while (first_part_[column + 1] <= part) ++column;
    return column;
  }

  uint32_t Sum(int32_t part) const {
    uint32_t sum = 0;
    const int32_t first = parts_[part].first_unit;
    for (int32_t i = first; i < first + parts_[part].num_units; ++i) sum += values[i];
    return sum;
  }

  std::vector<std::vector<PartSpec>> columns_;
  std::vector<int32_t> first_part_;
  std::vector<Part> parts_;
  std::vector<Unit> units_;
  std::vector<int32_t> part_of_;  // by unit
  std::vector<PartWait> waits_;
  std::vector<int32_t> barriers_;
  std::vector<ClaimProgram::Function> functions_;
  CallHistory history_{};
  ClaimProgram program_{};
};

/*! \brief Run units of the TestProgram that is the first argument, maybe with random delays. */
inline int32_t RunTestUnits(void** arguments, int32_t begin, int32_t end, int32_t /*ahead*/) {
  auto* program = static_cast<TestProgram*>(arguments[0]);
  for (int32_t unit = begin; unit < end; ++unit) {
    const uint32_t seed = program->delays.load(std::memory_order_relaxed);
    if (seed != 0) {
      std::minstd_rand random(seed + static_cast<uint32_t>(unit));
      random.discard(3);
      if (random() % 8 == 0) std::this_thread::sleep_for(std::chrono::microseconds(random() % 300));
    }
    program->RunUnit(unit);
  }
  return 0;
}

inline void ExpectEachOnce(const TestProgram& program) {
  for (const auto& count : program.counts) EXPECT_EQ(count.load(), 1);
}

/*! \brief Fill a program with random parts, waits and barriers. */
inline void FillRandomly(std::mt19937* random, int32_t num_columns, int32_t levels,
                         TestProgram* program) {
  const auto below = [random](int32_t end) {
    return static_cast<int32_t>((*random)() % static_cast<uint32_t>(end));
  };
  std::vector<int32_t> passed(num_columns, -1);  // by column: the last barrier that it waits for
  int32_t last = -1;
  for (int32_t level = 0; level < levels; ++level) {
    if (level > 0 && below(4) == 0) last = program->AddBarrier();
    std::vector<int32_t> sizes;
    for (int32_t c = 0; c < num_columns; ++c) sizes.push_back(program->size(c));
    for (int32_t c = 0; c < num_columns; ++c) {
      if (below(5) == 0) continue;
      std::vector<PartWait> waits;
      for (int32_t other = 0; other < num_columns; ++other) {
        if (other == c || sizes[other] == 0 || below(num_columns) > 1) continue;
        waits.push_back({other, 1 + below(sizes[other])});
      }
      program->Add(c, 1 + below(6), below(4) == 0, waits, passed[c] == last ? -1 : last);
      passed[c] = last;
    }
  }
}

}  // namespace tvm_ios
#endif  // TVM_IOS_TESTS_CPP_CLAIMS_SUPPORT_H_
