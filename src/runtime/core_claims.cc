// SPDX-License-Identifier: Apache-2.0
#include "runtime/core_claims.h"

#include <sched.h>

namespace tvm_ios {

#ifdef __linux__

bool CoreClaims::Claim() {
  const int core = sched_getcpu();
  if (core < 0 || static_cast<size_t>(core) >= kMaxCores) return false;
  const uint64_t bit = uint64_t{1} << (core % 64);
  return (words_[core / 64].fetch_or(bit) & bit) != 0;
}

void CoreClaims::ClaimDistinct() {
  cpu_set_t allowed;
  if (!Claim() || sched_getaffinity(0, sizeof(allowed), &allowed) != 0) return;
  cpu_set_t free = allowed;
  for (size_t core = 0; core < kMaxCores; ++core) {
    if (claimed(core)) CPU_CLR(core, &free);
  }
  if (CPU_COUNT(&free) == 0) return;
  sched_setaffinity(0, sizeof(free), &free);
  Claim();
  sched_setaffinity(0, sizeof(allowed), &allowed);
}

#else

bool CoreClaims::Claim() { return false; }
void CoreClaims::ClaimDistinct() {}

#endif

}  // namespace tvm_ios
