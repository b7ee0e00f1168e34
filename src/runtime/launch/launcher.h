// SPDX-License-Identifier: Apache-2.0
/*!
 * \file launcher.h
 * \brief What compiled libraries call to run their launches on the helpers of this process.
 *
 * A library has it stored by its function tvm_ios_set_launcher, see
 * python/tvm_ios/backend/cpu/code/launch_code.py.
 */
#ifndef TVM_IOS_RUNTIME_LAUNCH_LAUNCHER_H_
#define TVM_IOS_RUNTIME_LAUNCH_LAUNCHER_H_

#include <cstdint>

#include "runtime/launch/program.h"

namespace tvm_ios {

/*! \brief The functions of a launcher. */
struct Launcher {
  /*! \brief Run a program; return 0, or what a function returned that failed. */
  int32_t (*run)(const ClaimProgram* program, void** arguments);
  /*! \brief Return when nobody looks at the program any more, which is to be unloaded. */
  void (*forget)(const ClaimProgram* program);
};

/*! \brief Return the launcher of the process's helpers. */
const Launcher* HelperLauncher();

}  // namespace tvm_ios
#endif  // TVM_IOS_RUNTIME_LAUNCH_LAUNCHER_H_
