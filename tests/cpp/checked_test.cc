// SPDX-License-Identifier: Apache-2.0
#include "support/checked.h"

#include <gtest/gtest.h>

#include <cstdint>

namespace tvm_ios {
namespace {

TEST(CheckedInt, IsANumberWhileItFits) {
  EXPECT_EQ((CheckedInt(6) * 7 + 1).value(), 43);
  EXPECT_EQ((CheckedInt(INT64_MAX) + 0).value(), INT64_MAX);
  EXPECT_FALSE((CheckedInt(INT64_MAX) + 1).value());
  EXPECT_FALSE((CheckedInt(INT64_MIN) + -1).value());
  EXPECT_FALSE((CheckedInt(int64_t{1} << 32) * (int64_t{1} << 32)).value());
  EXPECT_FALSE((CheckedInt(INT64_MAX) * 2 * 0).value());  // what is lost stays lost
}

TEST(IsPart, KnowsWhatIsWithin) {
  EXPECT_TRUE(IsPart(0, 0, 0));
  EXPECT_TRUE(IsPart(2, 6, 8));
  EXPECT_FALSE(IsPart(3, 6, 8));
  EXPECT_FALSE(IsPart(-1, 1, 8));
  EXPECT_FALSE(IsPart(1, -1, 8));
  EXPECT_FALSE(IsPart(INT64_MAX, 1, 8));
  EXPECT_FALSE(IsPart(1, INT64_MAX, 8));
}

}  // namespace
}  // namespace tvm_ios
