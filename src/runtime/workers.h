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
 * \brief Create this thread's pool, if it does not exist, and share the allowed cores among its
 * threads.
 *
 * TVM takes as many workers as there are names of cores; with more workers than cores, names are
 * repeated.
 *
 * \return The size of the pool.
 */
int64_t SetNumThreads(int64_t workers);

}  // namespace tvm_ios
#endif  // TVM_IOS_RUNTIME_WORKERS_H_
