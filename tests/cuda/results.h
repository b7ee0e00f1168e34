// SPDX-License-Identifier: Apache-2.0
/*!
 * \file results.h
 * \brief Results, flags and modes of the CUDA driver, numbered as in cuda.h.
 */
#ifndef TVM_IOS_TESTS_CUDA_RESULTS_H_
#define TVM_IOS_TESTS_CUDA_RESULTS_H_

namespace fake_driver {

enum Result : int {
  kSuccess = 0,
  kInvalidValue = 1,
  kOutOfMemory = 2,
  kNotInitialized = 3,
  kNoDevice = 100,
  kInvalidDevice = 101,
  kInvalidImage = 200,
  kInvalidContext = 201,
  kInvalidHandle = 400,
  kNotFound = 500,
  kLaunchFailed = 719,
  kNotSupported = 801,
  kCaptureUnsupported = 900,
  kCaptureInvalidated = 901,
  kCaptureMerge = 902,
  kCaptureUnmatched = 903,
  kCaptureUnjoined = 904,
  kCaptureIsolation = 905,
  kCaptureImplicit = 906,
  kCapturedEvent = 907,
  kCaptureWrongThread = 908,
};

inline constexpr unsigned kStreamNonBlocking = 1;
inline constexpr unsigned kEventDisableTiming = 2;
inline constexpr unsigned kEventRecordExternal = 1;

enum CaptureMode : int { kGlobal = 0, kThreadLocal = 1, kRelaxed = 2 };
enum CaptureStatus : int { kNone = 0, kActive = 1, kInvalidated = 2 };

}  // namespace fake_driver
#endif  // TVM_IOS_TESTS_CUDA_RESULTS_H_
