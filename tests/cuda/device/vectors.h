// SPDX-License-Identifier: Apache-2.0
/*!
 * \file vectors.h
 * \brief CUDA's vector types, aligned as CUDA's.
 */
#ifndef TVM_IOS_TESTS_CUDA_DEVICE_VECTORS_H_
#define TVM_IOS_TESTS_CUDA_DEVICE_VECTORS_H_

#define FAKE_DRIVER_VECTORS(name, type)                                               \
  struct name##1 { type x; };                                                         \
  struct __attribute__((aligned(2 * sizeof(type)))) name##2 { type x, y; };           \
  struct name##3 { type x, y, z; };                                                   \
  struct __attribute__((aligned(sizeof(type) < 4 ? 4 * sizeof(type) : 16))) name##4 { \
    type x, y, z, w;                                                                  \
  };                                                                                  \
  inline name##1 make_##name##1(type x) { return {x}; }                               \
  inline name##2 make_##name##2(type x, type y) { return {x, y}; }                    \
  inline name##3 make_##name##3(type x, type y, type z) { return {x, y, z}; }         \
  inline name##4 make_##name##4(type x, type y, type z, type w) { return {x, y, z, w}; }

FAKE_DRIVER_VECTORS(char, signed char)
FAKE_DRIVER_VECTORS(uchar, unsigned char)
FAKE_DRIVER_VECTORS(short, short)
FAKE_DRIVER_VECTORS(ushort, unsigned short)
FAKE_DRIVER_VECTORS(int, int)
FAKE_DRIVER_VECTORS(uint, unsigned int)
FAKE_DRIVER_VECTORS(long, long)
FAKE_DRIVER_VECTORS(ulong, unsigned long)
FAKE_DRIVER_VECTORS(longlong, long long)
FAKE_DRIVER_VECTORS(ulonglong, unsigned long long)
FAKE_DRIVER_VECTORS(float, float)
FAKE_DRIVER_VECTORS(double, double)
#undef FAKE_DRIVER_VECTORS

#endif  // TVM_IOS_TESTS_CUDA_DEVICE_VECTORS_H_
