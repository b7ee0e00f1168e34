// SPDX-License-Identifier: Apache-2.0
#include "cuda/memory.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <new>
#include <utility>

namespace fake_driver {
namespace {

constexpr size_t kAlignment = 256;

}  // namespace

void* Memory::Allocate(size_t bytes) {
  if (bytes > kMemoryBytes - used_) return nullptr;
  try {
    auto piece = std::make_unique<Guarded>(std::max<size_t>(bytes, 1));
    void* memory = piece->Last(std::max<size_t>(bytes, 1), kAlignment);
    std::memset(memory, kPoison, bytes);
    pieces_.emplace(memory, Piece{std::move(piece), bytes});
    used_ += bytes;
    return memory;
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}

bool Memory::Free(void* memory) {
  const auto found = pieces_.find(memory);
  if (found == pieces_.end()) return false;
  used_ -= found->second.bytes;
  pieces_.erase(found);
  return true;
}

bool Memory::Contains(const void* address) const {
  const auto after = pieces_.upper_bound(address);
  return after != pieces_.begin() && address < std::prev(after)->second.memory->end();
}

}  // namespace fake_driver
