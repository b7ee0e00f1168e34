// SPDX-License-Identifier: Apache-2.0
#include "cuda/memory.h"

#include <sys/mman.h>

#include <cstring>

namespace standin {
namespace {

constexpr size_t kAlignment = 256;
constexpr size_t kPage = size_t{1} << 16;  // of the largest pages that a host has
constexpr int kPoison = 0xff;

size_t RoundUp(size_t bytes, size_t unit) { return (bytes + unit - 1) / unit * unit; }

}  // namespace

void* Memory::Allocate(size_t bytes) {
  const size_t used = RoundUp(bytes == 0 ? 1 : bytes, kPage);
  void* mapped = mmap(nullptr, used + 2 * kPage, PROT_NONE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapped == MAP_FAILED) return nullptr;
  char* begin = static_cast<char*>(mapped) + kPage;
  if (mprotect(begin, used, PROT_READ | PROT_WRITE) != 0) {
    munmap(mapped, used + 2 * kPage);
    return nullptr;
  }
  char* memory = begin + used - RoundUp(bytes, kAlignment);
  std::memset(memory, kPoison, bytes);
  pieces_.emplace(memory, Piece{mapped, used + 2 * kPage});
  return memory;
}

bool Memory::Free(void* memory) {
  const auto found = pieces_.find(memory);
  if (found == pieces_.end()) return false;
  munmap(found->second.mapped, found->second.mapped_bytes);
  pieces_.erase(found);
  return true;
}

bool Memory::Contains(const void* address) const {
  auto after = pieces_.upper_bound(address);
  if (after == pieces_.begin()) return false;
  const Piece& piece = (--after)->second;
  return address < static_cast<const char*>(piece.mapped) + piece.mapped_bytes;
}

}  // namespace standin
