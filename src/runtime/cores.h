// SPDX-License-Identifier: Apache-2.0
/*!
 * \file cores.h
 * \brief The cores that this process may run on.
 */
#ifndef TVM_IOS_RUNTIME_CORES_H_
#define TVM_IOS_RUNTIME_CORES_H_

#include <cstdint>
#include <vector>

namespace tvm_ios {

/*!
 * \brief Return the cores that the process may use (taskset, a container), in ascending order.
 *
 * The set is that of the moment when this library was loaded. Later, TVM binds each thread that
 * runs a network to some of the cores.
 */
const std::vector<int>& AllowedCores();

/*! \brief Return the cores on which the calling thread may run now, in ascending order. */
std::vector<int> CoresOfThread();

/*! \brief Return the core on which the calling thread runs, -1 if the system does not tell. */
int CurrentCore();

/*!
 * \brief Move the calling thread away from a core, if it runs there and may run elsewhere.
 *
 * Linux may wake a thread on the core of the one that wakes it, although another core is idle, and
 * moves it only after milliseconds. The thread may run on all of its cores again afterwards.
 */
void LeaveCore(int core);

/*! \brief Return the number by which the system knows the calling thread, 0 if it has none. */
int32_t CurrentThread();

/*! \brief Return the nanoseconds that a thread of this process has run for, -1 if unknown. */
int64_t ProcessorTime(int32_t thread);

/*!
 * \brief Let a thread that waits for a core run on that of the calling thread, which takes the
 * other one's place.
 * \param thread Of this process.
 *
 * Both may run on all of their cores again afterwards.
 */
void SwapCores(int32_t thread);

}  // namespace tvm_ios
#endif  // TVM_IOS_RUNTIME_CORES_H_
