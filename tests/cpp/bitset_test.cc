// SPDX-License-Identifier: Apache-2.0
#include "support/bitset.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>
#include <type_traits>
#include <unordered_set>
#include <vector>

namespace tvm_ios {
namespace {

template <typename Bits>
class BitsetTest : public testing::Test {
 protected:
  static Bits Make(const std::set<int>& members, int num_bits) {
    Bits bits(num_bits);
    for (int member : members) bits.Set(member);
    return bits;
  }
  static std::set<int> ToSet(const Bits& bits) { return {bits.begin(), bits.end()}; }
};

using Widths = testing::Types<FixedBitset<1>, FixedBitset<2>, FixedBitset<4>, DynamicBitset>;
TYPED_TEST_SUITE(BitsetTest, Widths);

/*! \brief Bits that a type holds, none of it a multiple of the word size. */
template <typename Bits>
int Capacity() {
  if constexpr (std::is_same_v<Bits, DynamicBitset>) {
    return 300;
  } else {
    return static_cast<int>(sizeof(Bits) * 8) - 1;
  }
}

TYPED_TEST(BitsetTest, AgreesWithStdSet) {
  const int num_bits = Capacity<TypeParam>();
  std::mt19937 random(1);
  std::uniform_int_distribution<int> member(0, num_bits - 1);
  for (int round = 0; round < 200; ++round) {
    std::set<int> a, b;
    for (int i = 0; i < round % 40; ++i) a.insert(member(random));
    for (int i = 0; i < round % 17; ++i) b.insert(member(random));
    const TypeParam x = this->Make(a, num_bits), y = this->Make(b, num_bits);
    std::set<int> both, either = a, only_a;
    either.insert(b.begin(), b.end());
    for (int i : a) (b.count(i) ? both : only_a).insert(i);
    EXPECT_EQ(this->ToSet(x), a);
    EXPECT_EQ(this->ToSet(x | y), either);
    EXPECT_EQ(this->ToSet(x & y), both);
    EXPECT_EQ(this->ToSet(x - y), only_a);
    EXPECT_EQ(x.Count(), a.size());
    EXPECT_EQ(x.Empty(), a.empty());
    EXPECT_EQ(x.IsSubsetOf(y), only_a.empty());
    EXPECT_EQ(x.IsDisjointFrom(y), both.empty());
    EXPECT_EQ(x == y, a == b);
    EXPECT_EQ(x != y, a != b);
  }
}

TYPED_TEST(BitsetTest, IteratesInOrder) {
  const int num_bits = Capacity<TypeParam>();
  const TypeParam bits = this->Make({num_bits - 1, 0, 7, num_bits / 2}, num_bits);
  const std::vector<int> members(bits.begin(), bits.end());
  EXPECT_TRUE(std::is_sorted(members.begin(), members.end()));
  EXPECT_EQ(members.size(), 4u);
}

TYPED_TEST(BitsetTest, FullHasAllAndNoMore) {
  const int num_bits = Capacity<TypeParam>();
  EXPECT_EQ(TypeParam::Full(num_bits).Count(), static_cast<size_t>(num_bits));
}

TYPED_TEST(BitsetTest, ResetUndoesSet) {
  TypeParam bits(Capacity<TypeParam>());
  bits.Set(5);
  EXPECT_TRUE(bits.Test(5));
  bits.Reset(5);
  EXPECT_FALSE(bits.Test(5));
  EXPECT_TRUE(bits.Empty());
}

TYPED_TEST(BitsetTest, HashSpreadsNeighbours) {
  const int num_bits = Capacity<TypeParam>();
  std::unordered_set<uint64_t> low_bits;
  for (int i = 0; i < num_bits; ++i) {
    low_bits.insert(this->Make({i}, num_bits).Hash() & 0xffff);
  }
  EXPECT_GE(low_bits.size(), static_cast<size_t>(num_bits * 9 / 10));
  EXPECT_EQ(this->Make({1, 3}, num_bits).Hash(), this->Make({3, 1}, num_bits).Hash());
}

}  // namespace
}  // namespace tvm_ios
