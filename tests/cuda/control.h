// SPDX-License-Identifier: Apache-2.0
/*!
 * \file control.h
 * \brief How a test reads what the fake driver was asked.
 *
 * The environment tells what it is: TVM_IOS_FAKE_DRIVER_DEVICES (2), TVM_IOS_FAKE_DRIVER_VERSION
 * (13000), TVM_IOS_FAKE_DRIVER_FAIL, see journal.h, TVM_IOS_FAKE_DRIVER_ORDER, see order.h, and
 * TVM_IOS_FAKE_DRIVER_COMPUTE: while it is 0, kernels are launched and take their time, and compute
 * nothing, so that a search is quick.
 */
#ifndef TVM_IOS_TESTS_CUDA_CONTROL_H_
#define TVM_IOS_TESTS_CUDA_CONTROL_H_

#include <stddef.h>

#define TVM_IOS_FAKE_DRIVER_EXPORT extern "C" __attribute__((visibility("default")))

/*! \brief Forgets what was asked so far. */
TVM_IOS_FAKE_DRIVER_EXPORT void TvmIosStandInClear(void);

/*!
 * \brief What was asked since, a line each: "thread: what".
 * \param text As much of it as there is room for, with a zero behind it.
 * \return The number of bytes that all of it takes, the zero included.
 */
TVM_IOS_FAKE_DRIVER_EXPORT size_t TvmIosStandInJournal(char* text, size_t size);

/*! \brief A line of the test's own. */
TVM_IOS_FAKE_DRIVER_EXPORT void TvmIosStandInNote(const char* what);

#endif  // TVM_IOS_TESTS_CUDA_CONTROL_H_
