// SPDX-License-Identifier: Apache-2.0
/*!
 * \file describe.h
 * \brief A description of the machine that this library is loaded on.
 */
#ifndef TVM_IOS_RUNTIME_DESCRIBE_H_
#define TVM_IOS_RUNTIME_DESCRIBE_H_

#include <string>

namespace tvm_ios {

/*!
 * \brief Return lines "name: value" as in /proc/cpuinfo.
 *
 * The first are machine (the architecture), cores (the number that this process may use) and
 * protocol (the version of the functions that a search calls). The sizes of its first core's caches
 * follow (L1d, L1i, L2 and so on), and the system's description of this core.
 */
std::string Describe();

}  // namespace tvm_ios
#endif  // TVM_IOS_RUNTIME_DESCRIBE_H_
