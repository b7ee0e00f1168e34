// SPDX-License-Identifier: Apache-2.0
/*!
 * \file cerr_capture.h
 * \brief What a thread writes to std::cerr, as a string.
 */
#ifndef TVM_IOS_SUPPORT_CERR_CAPTURE_H_
#define TVM_IOS_SUPPORT_CERR_CAPTURE_H_

#include <string>

namespace tvm_ios {

/*!
 * \brief Capture what the calling thread writes to std::cerr, where TVM's log goes.
 *
 * The file descriptor stays as it is: what other threads, Python and child processes write appears.
 * Captures may be nested; the innermost one gets the text.
 */
void BeginCerrCapture();

/*! \brief End the calling thread's last capture, and return its text; "" without a capture. */
std::string EndCerrCapture();

}  // namespace tvm_ios
#endif  // TVM_IOS_SUPPORT_CERR_CAPTURE_H_
