// SPDX-License-Identifier: Apache-2.0
/*!
 * \file vectors.h
 * \brief CUDA's vector types, aligned as CUDA's.
 */
#ifndef TVM_IOS_TESTS_CUDA_DEVICE_VECTORS_H_
#define TVM_IOS_TESTS_CUDA_DEVICE_VECTORS_H_

#define STANDIN_VECTORS(name, type)                                                   \
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

STANDIN_VECTORS(char, signed char)
STANDIN_VECTORS(uchar, unsigned char)
STANDIN_VECTORS(short, short)
STANDIN_VECTORS(ushort, unsigned short)
STANDIN_VECTORS(int, int)
STANDIN_VECTORS(uint, unsigned int)
STANDIN_VECTORS(long, long)
STANDIN_VECTORS(ulong, unsigned long)
STANDIN_VECTORS(longlong, long long)
STANDIN_VECTORS(ulonglong, unsigned long long)
STANDIN_VECTORS(float, float)
STANDIN_VECTORS(double, double)
#undef STANDIN_VECTORS

#endif  // TVM_IOS_TESTS_CUDA_DEVICE_VECTORS_H_
