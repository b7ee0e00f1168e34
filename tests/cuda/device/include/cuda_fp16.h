// SPDX-License-Identifier: Apache-2.0
/*!
 * \file cuda_fp16.h
 * \brief In place of CUDA's.
 */
#ifndef TVM_IOS_TESTS_CUDA_DEVICE_INCLUDE_CUDA_FP16_H_
#define TVM_IOS_TESTS_CUDA_DEVICE_INCLUDE_CUDA_FP16_H_

#include "cuda/device/narrow.h"

using __half = fake_driver::Narrow<fake_driver::HalfFormat>;
using half = __half;
using __half2 = fake_driver::NarrowPair<half>;
using half2 = __half2;

FAKE_DRIVER_NARROW_OPERATORS(half)

inline half2 make_half2(half x, half y) { return {x, y}; }
inline half2 __halves2half2(half x, half y) { return {x, y}; }
inline half __float2half(float x) { return x; }
inline half __float2half_rn(float x) { return x; }
inline float __half2float(half x) { return x; }
inline unsigned short __half_as_ushort(half x) { return StandInBits<unsigned short>(x); }
inline half __ushort_as_half(unsigned short x) { return StandInBits<half>(x); }

#endif  // TVM_IOS_TESTS_CUDA_DEVICE_INCLUDE_CUDA_FP16_H_
