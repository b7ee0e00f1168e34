// SPDX-License-Identifier: Apache-2.0
/*!
 * \file matrices.h
 * \brief Products of small matrices in float, as tensor cores make them.
 */
#ifndef TVM_IOS_TESTS_CUDA_DEVICE_MATRICES_H_
#define TVM_IOS_TESTS_CUDA_DEVICE_MATRICES_H_

namespace fake_driver {

inline constexpr uint32_t kBelowTf32 = 0x1fff;  // bits of a float that TF32 lacks

/*! \brief To the nearest, ties away from zero (cvt.rna). */
inline float RoundToTf32(float x) {
  if (!isfinite(x)) return x;
  return StandInBits<float>((StandInBits<uint32_t>(x) + 0x1000) & ~kBelowTf32);
}

/*! \brief What tensor cores see of a float that was not rounded. */
inline float TruncateToTf32(float x) {
  if (!isfinite(x)) return x;
  return StandInBits<float>(StandInBits<uint32_t>(x) & ~kBelowTf32);
}

/*! \brief An element of a matrix of T, as it is multiplied. */
template <typename T>
float Operand(float x) {
  return x;
}

/*! \brief Ends the launch with a complaint, unless something is as it must be. */
inline void Demand(bool holds, const char* otherwise) {
  if (!holds) StandInFail(otherwise);
}

/*! \brief c += a b, all by rows. */
template <int kM, int kN, int kK>
void Multiply(const float* a, const float* b, float* c) {
  for (int i = 0; i < kM; ++i) {
    for (int l = 0; l < kK; ++l) {
      const float factor = a[i * kK + l];
      for (int j = 0; j < kN; ++j) c[i * kN + j] += factor * b[l * kN + j];
    }
  }
}

}  // namespace fake_driver

#endif  // TVM_IOS_TESTS_CUDA_DEVICE_MATRICES_H_
