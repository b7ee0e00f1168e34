// SPDX-License-Identifier: Apache-2.0
#include "cuda/guarded.h"

#include <sys/mman.h>

#include <new>

namespace fake_driver {
namespace {

constexpr size_t kPageBytes = size_t{1} << 16;  // the largest that a host has

size_t RoundUp(size_t bytes, size_t unit) { return (bytes + unit - 1) / unit * unit; }

}  // namespace

Guarded::Guarded(size_t bytes) : bytes_(RoundUp(bytes, kPageBytes)) {
  void* mapped = mmap(nullptr, bytes_ + 2 * kPageBytes, PROT_NONE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapped == MAP_FAILED) throw std::bad_alloc();
  begin_ = static_cast<unsigned char*>(mapped) + kPageBytes;
  if (mprotect(begin_, bytes_, PROT_READ | PROT_WRITE) == 0) return;
  munmap(mapped, bytes_ + 2 * kPageBytes);
  throw std::bad_alloc();
}

Guarded::~Guarded() { munmap(begin_ - kPageBytes, bytes_ + 2 * kPageBytes); }

unsigned char* Guarded::Last(size_t bytes, size_t alignment) const {
  return end() - RoundUp(bytes, alignment);
}

bool Guarded::IsBehind(const void* address) const {
  const auto* byte = static_cast<const unsigned char*>(address);
  return end() <= byte && byte < end() + kPageBytes;
}

}  // namespace fake_driver
