// SPDX-License-Identifier: Apache-2.0
/*!
 * \file reference_speed.h
 * \brief Work of a known amount, whose time tells how fast the machine is at the moment.
 *
 * The clock frequency changes, and a neighbour on the same core or memory takes a share of them.
 * Latencies can be compared only if the machine was equally fast.
 */
#ifndef TVM_IOS_RUNTIME_REFERENCE_SPEED_H_
#define TVM_IOS_RUNTIME_REFERENCE_SPEED_H_

#include <cstdint>

namespace tvm_ios {

/*!
 * \brief Return the seconds of some 17 µs of arithmetic in registers, on the calling thread.
 *
 * It uses the processor's widest vectors, like the kernels. Where other cores are busy, a processor
 * may slow wide multiply-adds down four times as much as narrow ones (12% and 3% on a Xeon).
 */
double TimeArithmetic();

/*!
 * \brief Return the seconds of a copy between arrays that are larger than a core's L2 cache, on the
 * calling thread.
 */
double TimeCopy();

/*! \brief How often the calling thread was preempted; 0 where that is not known. */
int64_t NumPreemptions();

}  // namespace tvm_ios
#endif  // TVM_IOS_RUNTIME_REFERENCE_SPEED_H_
