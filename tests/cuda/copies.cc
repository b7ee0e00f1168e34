// SPDX-License-Identifier: Apache-2.0
#include "cuda/copies.h"

#include <cstring>
#include <utility>

#include "cuda/guarded.h"

namespace fake_driver {

void Copies::Add(void* to, const void* from, unsigned bytes, unsigned read) {
  std::memset(to, kPoison, bytes);  // whoever reads it now, reads NaN
  open_.push_back({to, from, bytes, read});
}

void Copies::Commit() { groups_.push_back(std::exchange(open_, {})); }

void Copies::Await(size_t groups) {
  while (groups_.size() > groups) {
    for (const Copy& copy : groups_.front()) {
      std::memcpy(copy.to, copy.from, copy.read);
      std::memset(static_cast<char*>(copy.to) + copy.read, 0, copy.bytes - copy.read);
    }
    groups_.pop_front();
  }
}

void Copies::Finish() {
  if (!open_.empty()) Commit();
  Await(0);
}

void Copies::Clear() {
  open_.clear();
  groups_.clear();
}

}  // namespace fake_driver
