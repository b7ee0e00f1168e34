// SPDX-License-Identifier: Apache-2.0
/*!
 * \file arithmetic.h
 * \brief What CUDA has on top of C's mathematics; fast variants are as exact as the others.
 */
#ifndef TVM_IOS_TESTS_CUDA_DEVICE_ARITHMETIC_H_
#define TVM_IOS_TESTS_CUDA_DEVICE_ARITHMETIC_H_

#define FAKE_DRIVER_UNARY(name, exact) \
  inline float name(float x) { return exact(x); }
#define FAKE_DRIVER_BINARY(name, exact) \
  inline float name(float x, float y) { return exact(x, y); }

FAKE_DRIVER_UNARY(__expf, expf)
FAKE_DRIVER_UNARY(__exp10f, exp10f)
FAKE_DRIVER_UNARY(__logf, logf)
FAKE_DRIVER_UNARY(__log2f, log2f)
FAKE_DRIVER_UNARY(__log10f, log10f)
FAKE_DRIVER_UNARY(__sinf, sinf)
FAKE_DRIVER_UNARY(__cosf, cosf)
FAKE_DRIVER_UNARY(__tanf, tanf)
FAKE_DRIVER_UNARY(__tanhf, tanhf)
FAKE_DRIVER_UNARY(__fsqrt_rn, sqrtf)
FAKE_DRIVER_BINARY(__powf, powf)
#undef FAKE_DRIVER_UNARY
#undef FAKE_DRIVER_BINARY

inline float __fdividef(float x, float y) { return x / y; }
inline float __frcp_rn(float x) { return 1.0F / x; }
inline float __saturatef(float x) { return fminf(fmaxf(x, 0.0F), 1.0F); }
inline float rsqrtf(float x) { return 1.0F / sqrtf(x); }
inline double rsqrt(double x) { return 1.0 / ::sqrt(x); }

/*! \brief The larger and the smaller of two numbers, in the type that C gives their sum. */
template <typename A, typename B,
          typename = std::enable_if_t<std::is_arithmetic_v<A> && std::is_arithmetic_v<B>>>
auto max(A a, B b) -> decltype(a + b) {
  using Both = decltype(a + b);
  if constexpr (std::is_same_v<Both, float>) return fmaxf(a, b);
  if constexpr (std::is_same_v<Both, double>) return fmax(a, b);
  return static_cast<Both>(a) < static_cast<Both>(b) ? static_cast<Both>(b) : static_cast<Both>(a);
}
template <typename A, typename B,
          typename = std::enable_if_t<std::is_arithmetic_v<A> && std::is_arithmetic_v<B>>>
auto min(A a, B b) -> decltype(a + b) {
  using Both = decltype(a + b);
  if constexpr (std::is_same_v<Both, float>) return fminf(a, b);
  if constexpr (std::is_same_v<Both, double>) return fmin(a, b);
  return static_cast<Both>(b) < static_cast<Both>(a) ? static_cast<Both>(b) : static_cast<Both>(a);
}

inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
inline int __clz(int x) { return x == 0 ? 32 : __builtin_clz(x); }
inline int __clzll(long long x) { return x == 0 ? 64 : __builtin_clzll(x); }
inline int __ffs(int x) { return __builtin_ffs(x); }
inline int __mulhi(int x, int y) { return static_cast<int>((int64_t{x} * y) >> 32); }
inline unsigned __umulhi(unsigned x, unsigned y) {
  return static_cast<unsigned>((uint64_t{x} * y) >> 32);
}

template <typename To, typename From>
To StandInBits(From from) {
  static_assert(sizeof(To) == sizeof(From), "as many bits");
  To to;
  memcpy(&to, &from, sizeof(to));
  return to;
}
inline int __float_as_int(float x) { return StandInBits<int>(x); }
inline unsigned __float_as_uint(float x) { return StandInBits<unsigned>(x); }
inline float __int_as_float(int x) { return StandInBits<float>(x); }
inline float __uint_as_float(unsigned x) { return StandInBits<float>(x); }

template <typename T>
T __ldg(const T* address) {
  return *address;
}

/*! \brief Threads take turns, so that any update is atomic. */
template <typename T>
T StandInUpdate(T* address, T value) {
  const T before = *address;
  *address = value;
  return before;
}
template <typename T>
T atomicAdd(T* address, T value) {
  return StandInUpdate(address, static_cast<T>(*address + value));
}
template <typename T>
T atomicMax(T* address, T value) {
  return StandInUpdate(address, max(*address, value));
}
template <typename T>
T atomicMin(T* address, T value) {
  return StandInUpdate(address, min(*address, value));
}
template <typename T>
T atomicCAS(T* address, T expected, T value) {
  return StandInUpdate(address, *address == expected ? value : *address);
}
template <typename T>
T atomicExch(T* address, T value) {
  return StandInUpdate(address, value);
}

#endif  // TVM_IOS_TESTS_CUDA_DEVICE_ARITHMETIC_H_
