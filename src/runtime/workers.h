// SPDX-License-Identifier: Apache-2.0
/*!
 * \file workers.h
 * \brief The threads that run a stage on a CPU.
 */
#ifndef TVM_IOS_RUNTIME_WORKERS_H_
#define TVM_IOS_RUNTIME_WORKERS_H_

#include <cstdint>

namespace tvm_ios {

/*!
 * \brief Makes this thread's pool, if it is not there yet, and shares the allowed cores among it.
 *
 * TVM takes as many workers as there are names of cores; with more workers than cores some names
 * come again.
 * \return How large the pool is.
 */
int64_t UseWorkers(int64_t workers);

}  // namespace tvm_ios
#endif  // TVM_IOS_RUNTIME_WORKERS_H_
