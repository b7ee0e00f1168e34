// SPDX-License-Identifier: Apache-2.0
/*!
 * \file describe.h
 * \brief What the machine is that this library is loaded on.
 */
#ifndef TVM_IOS_RUNTIME_DESCRIBE_H_
#define TVM_IOS_RUNTIME_DESCRIBE_H_

#include <string>

namespace tvm_ios {

/*!
 * \brief Lines "name: value" as in /proc/cpuinfo.
 *
 * First come machine (the architecture), cores (those that this process may run on) and protocol
 * (the version of the functions that a search calls); then what the system says of its first core.
 */
std::string Describe();

}  // namespace tvm_ios
#endif  // TVM_IOS_RUNTIME_DESCRIBE_H_
