// SPDX-License-Identifier: Apache-2.0
#include "search/fcm1.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "support/error.h"

namespace tvm_ios {
namespace {

Fcm1Operator Convolution() { return {100, 10, 4, 8, 1, {9, 9}, {3, 3}, {1, 1}, {1, 1}}; }

/*! \brief What two such operators cost, merged. */
double Merged(const Fcm1Operator& op) {
  return StageCost(Dag(2, {}), Fcm1({op, op}), {0, 1}, Strategy::kMerge);
}

TEST(Fcm1, PricesMergedConvolutions) { EXPECT_GT(Merged(Convolution()), 5000); }

TEST(Fcm1, RefusesToMergeWhatIsNoConvolution) {
  for (int64_t bad : {int64_t{0}, int64_t{-1}, INT64_MIN}) {
    Fcm1Operator op = Convolution();
    op.stride[1] = bad;
    EXPECT_THROW(Merged(op), OptionError);
    op = Convolution();
    op.groups = bad;
    EXPECT_THROW(Merged(op), OptionError);
  }
  Fcm1Operator op = Convolution();
  op.padding[0] = -1;
  EXPECT_THROW(Merged(op), OptionError);
}

TEST(Fcm1, RefusesWhatIsTooLargeToCount) {
  Fcm1Operator op = Convolution();
  op.in_size = {int64_t{1} << 40, int64_t{1} << 40};
  EXPECT_THROW(Merged(op), OptionError);
  op = Convolution();
  op.padding[0] = INT64_MAX;
  EXPECT_THROW(Merged(op), OptionError);
}

TEST(StageCost, RefusesWhatIsNoStage) {
  const StageModel model = Fcm1({Convolution(), Convolution()});
  for (const std::vector<int>& ops : {std::vector<int>{}, {2}, {-1}, {0, 0}}) {
    for (Strategy strategy : {Strategy::kMerge, Strategy::kConcurrent}) {
      EXPECT_THROW(StageCost(Dag(2, {}), model, ops, strategy), GraphError);
    }
  }
}

TEST(CheckModel, RefusesTimesBelowZero) {
  Fcm1Operator op = Convolution();
  op.work = -1;
  EXPECT_THROW(CheckModel(Dag(2, {}), Fcm1({op, op})), OptionError);
  EXPECT_THROW(CheckModel(Dag(3, {}), Fcm1({Convolution()})), OptionError);
}

}  // namespace
}  // namespace tvm_ios
