// SPDX-License-Identifier: Apache-2.0
#include "runtime/stage_tables.h"

#include <algorithm>

#include "runtime/arguments.h"

namespace tvm_ios {

void StageTables::Add(int64_t column, int32_t function, int32_t begin, int32_t end, int32_t ahead,
                      int32_t num_units) {
  Column& own = columns_[column];
  const bool continues = !own.parts.empty() && own.parts.back().share == share_;
  if (!continues) {
    // A barrier includes those before it.
    const int32_t barrier = own.passed == last_barrier_ ? -1 : last_barrier_;
    own.parts.push_back({share_, barrier, false, {}});
    own.passed = last_barrier_;
  }
  OpenPart& part = own.parts.back();
  part.chain = continues;
  const int64_t size = int64_t{end} - begin;
  const int64_t count = std::max<int64_t>(1, std::min<int64_t>(size, num_units));
  CheckRange(static_cast<int64_t>(part.units.size()) + count, 1, ClaimProgram::kMaxUnits,
             "the number of units of a worker's share");
  // As python/tvm_ios/backend/cpu/code/units.py does.
  const auto cut = [&](int64_t n) { return static_cast<int32_t>(begin + size * n / count); };
  for (int64_t n = 0; n < count; ++n) {
    part.units.push_back({function, cut(n), cut(n + 1), ahead});
  }
}

void StageTables::AddBarrier() {
  BeginShare();
  for (const Column& column : columns_) {
    barriers_.push_back(static_cast<int32_t>(column.parts.size()));
  }
  ++last_barrier_;
}

void StageTables::AddToEach(int32_t function) {
  BeginShare();
  for (size_t column = 0; column < columns_.size(); ++column) {
    const auto tile = static_cast<int32_t>(column);
    Add(tile, function, tile, tile + 1, 0, 1);
  }
}

void StageTables::AddMark(int32_t function, int32_t ahead) {
  AddBarrier();
  Add(0, function, 0, 1, ahead, 1);
  AddBarrier();
}

const ClaimProgram* StageTables::Finish(const std::vector<ClaimProgram::Function>& functions) {
  functions_ = functions;
  for (const Column& column : columns_) {
    first_part_.push_back(static_cast<int32_t>(parts_.size()));
    for (const OpenPart& part : column.parts) {
      parts_.push_back({static_cast<int32_t>(units_.size()),
                        static_cast<int32_t>(part.units.size()), 0, 0, part.barrier,
                        part.chain ? 1 : 0});
      units_.insert(units_.end(), part.units.begin(), part.units.end());
    }
  }
  first_part_.push_back(static_cast<int32_t>(parts_.size()));
  program_ = {ClaimProgram::kVersion, static_cast<int32_t>(columns_.size()),
              /*record=*/-1,
              /*reserved=*/0,         first_part_.data(),
              parts_.data(),          units_.data(),
              /*waits=*/nullptr,      barriers_.data(),
              functions_.data(),
              /*history=*/nullptr};
  return &program_;
}

}  // namespace tvm_ios
