// SPDX-License-Identifier: Apache-2.0
/*!
 * \file cores.h
 * \brief The cores that this process may run on.
 */
#ifndef TVM_IOS_RUNTIME_CORES_H_
#define TVM_IOS_RUNTIME_CORES_H_

#include <vector>

namespace tvm_ios {

/*!
 * \brief The cores that the process was given (taskset, a container), in ascending order.
 *
 * As it was when this library was loaded: TVM binds each thread that runs a network to some cores.
 */
const std::vector<int>& AllowedCores();

}  // namespace tvm_ios
#endif  // TVM_IOS_RUNTIME_CORES_H_
