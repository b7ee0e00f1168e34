// SPDX-License-Identifier: Apache-2.0
/*!
 * \file cuda_bf16.h
 * \brief In place of CUDA's.
 */
#ifndef TVM_IOS_TESTS_CUDA_DEVICE_INCLUDE_CUDA_BF16_H_
#define TVM_IOS_TESTS_CUDA_DEVICE_INCLUDE_CUDA_BF16_H_

#include "cuda/device/narrow.h"

using __nv_bfloat16 = fake_driver::Narrow<fake_driver::BrainFormat>;
using nv_bfloat16 = __nv_bfloat16;
using __nv_bfloat162 = fake_driver::NarrowPair<nv_bfloat16>;
using nv_bfloat162 = __nv_bfloat162;

FAKE_DRIVER_NARROW_OPERATORS(nv_bfloat16)

inline nv_bfloat16 __float2bfloat16(float x) { return x; }
inline nv_bfloat16 __float2bfloat16_rn(float x) { return x; }
inline float __bfloat162float(nv_bfloat16 x) { return x; }

#endif  // TVM_IOS_TESTS_CUDA_DEVICE_INCLUDE_CUDA_BF16_H_
