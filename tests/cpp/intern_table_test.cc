// SPDX-License-Identifier: Apache-2.0
#include "support/intern_table.h"

#include <gtest/gtest.h>

#include <random>
#include <unordered_map>

#include "support/bitset.h"

namespace tvm_ios {
namespace {

using Bits = FixedBitset<1>;

TEST(InternTable, NumbersKeysInOrderOfAppearance) {
  InternTable<Bits> table;
  std::unordered_map<uint64_t, uint32_t> expected;
  std::mt19937_64 random(2);
  for (int i = 0; i < 20000; ++i) {
    Bits key(64);
    const uint64_t word = random() & random() & random() & 0x3ffff;
    for (int bit = 0; bit < 64; ++bit) {
      if (word >> bit & 1) key.Set(bit);
    }
    const auto next = static_cast<uint32_t>(expected.size());
    const auto [entry, is_new] = expected.emplace(word, next);
    EXPECT_EQ(table.Intern(key), std::make_pair(entry->second, is_new));
    EXPECT_EQ(table[entry->second], key);
  }
  EXPECT_EQ(table.size(), expected.size());
}

TEST(InternTable, ClearStartsOver) {
  InternTable<Bits> table;
  for (int bit = 0; bit < 64; ++bit) {
    Bits key(64);
    key.Set(bit);
    table.Intern(key);
  }
  table.Clear();
  EXPECT_EQ(table.size(), 0u);
  EXPECT_EQ(table.Intern(Bits(64)), std::make_pair(0u, true));
}

}  // namespace
}  // namespace tvm_ios
