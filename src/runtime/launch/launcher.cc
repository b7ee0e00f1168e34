// SPDX-License-Identifier: Apache-2.0
#include "runtime/launch/launcher.h"

#include "runtime/launch/pool.h"

namespace tvm_ios {

const Launcher* HelperLauncher() {
  static const Launcher launcher{
      [](const ClaimProgram* program, void** arguments) {
        return HelperPool::Get().Run(program, arguments);
      },
      [](const ClaimProgram* program) { HelperPool::Get().WaitForGuests(program); }};
  return &launcher;
}

}  // namespace tvm_ios
