// SPDX-License-Identifier: Apache-2.0
/*!
 * \file call_choice.h
 * \brief Whether the calls of a program are faster with helpers or by the caller alone.
 *
 * A program of microseconds may take longer on two cores than on one. Which is faster depends on
 * the machine and on the time between calls, so that it is measured while the program is used.
 */
#ifndef TVM_IOS_RUNTIME_LAUNCH_CALL_CHOICE_H_
#define TVM_IOS_RUNTIME_LAUNCH_CALL_CHOICE_H_

#include <cstdint>

#include "runtime/launch/program.h"

namespace tvm_ios {

/*! \brief Return whether the next call shall ask for helpers; times are in nanoseconds. */
bool ChooseHelpers(CallHistory* history, int64_t now);

/*! \brief Note how long a call took that had helpers or not. */
void NoteCall(CallHistory* history, bool helped, int64_t duration);

/*! \brief Return how long calls take, 0 if unknown. */
int64_t UsualDuration(const CallHistory& history);

}  // namespace tvm_ios
#endif  // TVM_IOS_RUNTIME_LAUNCH_CALL_CHOICE_H_
