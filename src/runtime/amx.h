// SPDX-License-Identifier: Apache-2.0
/*!
 * \file amx.h
 * \brief The permission to use the matrix registers of Intel's AMX.
 */
#ifndef TVM_IOS_RUNTIME_AMX_H_
#define TVM_IOS_RUNTIME_AMX_H_

namespace tvm_ios {

/*!
 * \brief Ask Linux to let all threads of this process use the registers, if the processor has them.
 *
 * Without the permission their first use is an illegal instruction. A refusal is not an error here:
 * kernels that need them are not built for such a machine.
 */
void PermitAmx();

}  // namespace tvm_ios
#endif  // TVM_IOS_RUNTIME_AMX_H_
