// SPDX-License-Identifier: Apache-2.0
/*!
 * \file bitset.h
 * \brief Sets of small integers, one bit each.
 */
#ifndef TVM_IOS_SUPPORT_BITSET_H_
#define TVM_IOS_SUPPORT_BITSET_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <type_traits>
#include <vector>

namespace tvm_ios {

/*! \brief Return the words of 64 bits that hold num_bits bits. */
constexpr size_t NumWords(size_t num_bits) { return (num_bits + 63) / 64; }

/*!
 * \brief A set of the integers 0 .. capacity - 1.
 *
 * The operands of an operation must have the same number of words, as all sets over one graph do.
 *
 * \tparam Words std::array<uint64_t, n> or std::vector<uint64_t>.
 */
template <typename Words>
class Bitset {
 public:
  /*!
   * \brief An iterator over the members in increasing order; it is valid while the set exists
   * unchanged.
   */
  class Iterator {
   public:
    using iterator_category = std::input_iterator_tag;
    using value_type = int;
    using difference_type = std::ptrdiff_t;
    using pointer = const int*;
    using reference = int;

    Iterator(const Bitset* set, size_t word) : set_(set), word_(word) { Settle(); }
    int operator*() const { return static_cast<int>(64 * word_) + __builtin_ctzll(rest_); }
    Iterator& operator++() {
      rest_ &= rest_ - 1;
      if (rest_ == 0) {
        ++word_;
        Settle();
      }
      return *this;
    }
    bool operator==(const Iterator& other) const {
      return word_ == other.word_ && rest_ == other.rest_;
    }
    bool operator!=(const Iterator& other) const { return !(*this == other); }

   private:
    void Settle() {
      const size_t end = set_->words_.size();
      while (word_ < end && set_->words_[word_] == 0) ++word_;
      rest_ = word_ < end ? set_->words_[word_] : 0;
    }

    const Bitset* set_;
    size_t word_;
    uint64_t rest_{0};
  };

  /*! \brief Make an empty set with room for num_bits members. */
  explicit Bitset(size_t num_bits) {
    if constexpr (std::is_same_v<Words, std::vector<uint64_t>>) {
      words_.resize(NumWords(num_bits));
    } else {
      words_.fill(0);
    }
  }

  /*! \brief Return the set of all integers below num_bits. */
  static Bitset Full(size_t num_bits) {
    Bitset full(num_bits);
    for (size_t i = 0; i < num_bits; ++i) full.Set(i);
    return full;
  }

  /*! \brief Return the set of some integers below num_bits. */
  static Bitset Of(size_t num_bits, const std::vector<int>& members) {
    Bitset set(num_bits);
    for (int member : members) set.Set(static_cast<size_t>(member));
    return set;
  }

  bool Test(size_t i) const { return (words_[i / 64] >> (i % 64) & 1) != 0; }
  void Set(size_t i) { words_[i / 64] |= uint64_t{1} << (i % 64); }
  void Reset(size_t i) { words_[i / 64] &= ~(uint64_t{1} << (i % 64)); }

  size_t Count() const {
    size_t count = 0;
    for (uint64_t word : words_) count += static_cast<size_t>(__builtin_popcountll(word));
    return count;
  }
  bool Empty() const {
    for (uint64_t word : words_) {
      if (word != 0) return false;
    }
    return true;
  }
  bool IsSubsetOf(const Bitset& other) const {
    for (size_t i = 0; i < words_.size(); ++i) {
      if ((words_[i] & ~other.words_[i]) != 0) return false;
    }
    return true;
  }
  bool IsDisjointFrom(const Bitset& other) const {
    for (size_t i = 0; i < words_.size(); ++i) {
      if ((words_[i] & other.words_[i]) != 0) return false;
    }
    return true;
  }

  /*! \brief Union. */
  Bitset& operator|=(const Bitset& other) {
    for (size_t i = 0; i < words_.size(); ++i) words_[i] |= other.words_[i];
    return *this;
  }
  /*! \brief Intersection. */
  Bitset& operator&=(const Bitset& other) {
    for (size_t i = 0; i < words_.size(); ++i) words_[i] &= other.words_[i];
    return *this;
  }
  /*! \brief Difference. */
  Bitset& operator-=(const Bitset& other) {
    for (size_t i = 0; i < words_.size(); ++i) words_[i] &= ~other.words_[i];
    return *this;
  }
  friend Bitset operator|(Bitset a, const Bitset& b) { return a |= b; }
  friend Bitset operator&(Bitset a, const Bitset& b) { return a &= b; }
  friend Bitset operator-(Bitset a, const Bitset& b) { return a -= b; }
  friend bool operator==(const Bitset& a, const Bitset& b) {
    // That of std::array calls memcmp, which takes longer than to compare a few words.
    for (size_t i = 0; i < a.words_.size(); ++i) {
      if (a.words_[i] != b.words_[i]) return false;
    }
    return true;
  }
  friend bool operator!=(const Bitset& a, const Bitset& b) { return !(a == b); }

  Iterator begin() const { return Iterator(this, 0); }
  Iterator end() const { return Iterator(this, words_.size()); }

  /*! \brief Return a well-mixed hash: every bit of the set affects every bit of the hash. */
  uint64_t Hash() const {
    uint64_t hash = 0;
    for (uint64_t word : words_) {
      hash = (hash ^ word) * 0x9e3779b97f4a7c15ULL;
      hash ^= hash >> 32;
    }
    return hash * 0xd6e8feb86659fd93ULL ^ hash >> 29;
  }

  const Words& words() const { return words_; }

 private:
  Words words_;
};

/*! \brief A set of at most 64 * kWords integers, without any allocation. */
template <size_t kWords>
using FixedBitset = Bitset<std::array<uint64_t, kWords>>;

/*! \brief A set whose capacity is chosen at run time. */
using DynamicBitset = Bitset<std::vector<uint64_t>>;

}  // namespace tvm_ios
#endif  // TVM_IOS_SUPPORT_BITSET_H_
