// SPDX-License-Identifier: Apache-2.0
#include "runtime/amx.h"

#if defined(__x86_64__) && defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace tvm_ios {

void PermitAmx() {
#if defined(__x86_64__) && defined(__linux__)
  // Source: Linux, Documentation/arch/x86/xstate.rst.
  constexpr long kRequestPermission = 0x1023;  // ARCH_REQ_XCOMP_PERM
  constexpr long kTileData = 18;               // XFEATURE_XTILEDATA
  syscall(SYS_arch_prctl, kRequestPermission, kTileData);
#endif
}

}  // namespace tvm_ios
