// SPDX-License-Identifier: Apache-2.0
/*!
 * \file intern_table.h
 * \brief Distinct keys, numbered in the order of their first occurrence.
 */
#ifndef TVM_IOS_SUPPORT_INTERN_TABLE_H_
#define TVM_IOS_SUPPORT_INTERN_TABLE_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <utility>
#include <vector>

namespace tvm_ios {

/*!
 * \brief A hash table from keys to their numbers 0, 1, 2, ...
 *
 * It uses open addressing over 4-byte slots beside a dense vector of keys. The overhead is about
 * twelve bytes per key, so that a search can hold tens of millions of keys.
 *
 * \tparam Key Copyable, with operator== and a member Hash() whose low bits are well mixed.
 */
template <typename Key>
class InternTable {
 public:
  InternTable() { Clear(); }

  /*! \brief Return the number of the key, and whether it is new. */
  std::pair<uint32_t, bool> Intern(const Key& key) {
    size_t slot = FindSlot(key);
    if (slots_[slot] != kFree) return {slots_[slot], false};
    if (keys_.size() == kFree) throw std::length_error("InternTable: more than 2^32 - 1 keys");
    const uint32_t id = static_cast<uint32_t>(keys_.size());
    keys_.push_back(key);
    slots_[slot] = id;
    if (2 * keys_.size() > slots_.size()) Grow();
    return {id, true};
  }

  /*! \brief Return the number of the key; nothing if it does not occur. */
  std::optional<uint32_t> Find(const Key& key) const {
    const uint32_t id = slots_[FindSlot(key)];
    return id == kFree ? std::nullopt : std::optional<uint32_t>(id);
  }

  const Key& operator[](size_t id) const { return keys_[id]; }
  size_t size() const { return keys_.size(); }

  /*! \brief Remove all keys but keep the memory. */
  void Clear() {
    keys_.clear();
    slots_.assign(kInitialSlots, kFree);
  }

 private:
  static constexpr uint32_t kFree = UINT32_MAX;
  static constexpr size_t kInitialSlots = 64;  // a power of two, as every size after it

  size_t FindSlot(const Key& key) const {
    const size_t mask = slots_.size() - 1;
    size_t slot = key.Hash() & mask;
    while (slots_[slot] != kFree && !(keys_[slots_[slot]] == key)) slot = (slot + 1) & mask;
    return slot;
  }

  void Grow() {
    slots_.assign(2 * slots_.size(), kFree);
    for (size_t id = 0; id < keys_.size(); ++id) {
      slots_[FindSlot(keys_[id])] = static_cast<uint32_t>(id);
    }
  }

  std::vector<Key> keys_;
  std::vector<uint32_t> slots_;
};

}  // namespace tvm_ios
#endif  // TVM_IOS_SUPPORT_INTERN_TABLE_H_
