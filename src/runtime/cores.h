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
 * \brief Return the cores that the process may use (taskset, a container), in ascending order.
 *
 * The set is that of the moment when this library was loaded. Later, TVM binds each thread that
 * runs a network to some of the cores.
 */
const std::vector<int>& AllowedCores();

}  // namespace tvm_ios
#endif  // TVM_IOS_RUNTIME_CORES_H_
