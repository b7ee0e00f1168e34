// SPDX-License-Identifier: Apache-2.0
/*!
 * \file narrow.h
 * \brief Numbers of 16 bits: each operation is one of float, its result rounded.
 */
#ifndef TVM_IOS_TESTS_CUDA_DEVICE_NARROW_H_
#define TVM_IOS_TESTS_CUDA_DEVICE_NARROW_H_

namespace fake_driver {

/*! \brief IEEE's binary16. */
struct HalfFormat {
  static uint16_t Pack(float x) { return StandInBits<uint16_t>(static_cast<_Float16>(x)); }
  static float Unpack(uint16_t bits) { return static_cast<float>(StandInBits<_Float16>(bits)); }
};

/*! \brief The upper half of a float. */
struct BrainFormat {
  static uint16_t Pack(float x) {
    const auto bits = StandInBits<uint32_t>(x);
    if (x != x) return static_cast<uint16_t>(bits >> 16 | 0x40);
    return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);  // to the nearest even
  }
  static float Unpack(uint16_t bits) { return StandInBits<float>(uint32_t{bits} << 16); }
};

/*! \brief As CUDA's __half, with conversions that need not be written. */
template <typename Format>
class Narrow {
 public:
  Narrow() = default;
  Narrow(const Narrow&) = default;
  Narrow(const volatile Narrow& other) : bits_(other.bits_) {}
  template <typename T, typename = std::enable_if_t<std::is_arithmetic_v<T>>>
  Narrow(T x) : bits_(Format::Pack(static_cast<float>(x))) {}
  Narrow& operator=(const Narrow&) = default;
  void operator=(const Narrow& other) volatile { bits_ = other.bits_; }
  operator float() const { return Format::Unpack(bits_); }

 private:
  uint16_t bits_;
};

// Templates would not convert their arguments, which CUDA's functions do.
#define FAKE_DRIVER_NARROW_OPERATORS(T)                                                       \
  inline T operator+(T a, T b) { return static_cast<float>(a) + static_cast<float>(b); }      \
  inline T operator-(T a, T b) { return static_cast<float>(a) - static_cast<float>(b); }      \
  inline T operator*(T a, T b) { return static_cast<float>(a) * static_cast<float>(b); }      \
  inline T operator/(T a, T b) { return static_cast<float>(a) / static_cast<float>(b); }      \
  inline T operator-(T a) { return -static_cast<float>(a); }                                  \
  inline T& operator+=(T& a, T b) { return a = a + b; }                                       \
  inline T& operator-=(T& a, T b) { return a = a - b; }                                       \
  inline T& operator*=(T& a, T b) { return a = a * b; }                                       \
  inline T& operator/=(T& a, T b) { return a = a / b; }                                       \
  inline bool operator==(T a, T b) { return static_cast<float>(a) == static_cast<float>(b); } \
  inline bool operator!=(T a, T b) { return static_cast<float>(a) != static_cast<float>(b); } \
  inline bool operator<(T a, T b) { return static_cast<float>(a) < static_cast<float>(b); }   \
  inline bool operator>(T a, T b) { return static_cast<float>(a) > static_cast<float>(b); }   \
  inline bool operator<=(T a, T b) { return static_cast<float>(a) <= static_cast<float>(b); } \
  inline bool operator>=(T a, T b) { return static_cast<float>(a) >= static_cast<float>(b); } \
  inline bool __heq(T a, T b) { return a == b; }                                              \
  inline bool __hgt(T a, T b) { return a > b; }                                               \
  inline bool __hlt(T a, T b) { return a < b; }                                               \
  inline bool __hge(T a, T b) { return a >= b; }                                              \
  inline bool __hle(T a, T b) { return a <= b; }                                              \
  inline bool __hisnan(T a) { return a != a; }                                                \
  inline T __hadd(T a, T b) { return a + b; }                                                 \
  inline T __hsub(T a, T b) { return a - b; }                                                 \
  inline T __hmul(T a, T b) { return a * b; }                                                 \
  inline T __hdiv(T a, T b) { return a / b; }                                                 \
  inline T __hneg(T a) { return -a; }                                                         \
  inline T __hmax(T a, T b) { return fmaxf(a, b); }                                           \
  inline T __hmin(T a, T b) { return fminf(a, b); }                                           \
  inline T __habs(T a) { return fabsf(a); }                                                   \
  inline T __hfma(T a, T b, T c) { return fmaf(a, b, c); }                                    \
  inline T hexp(T a) { return expf(a); }                                                      \
  inline T hexp2(T a) { return exp2f(a); }                                                    \
  inline T hexp10(T a) { return exp10f(a); }                                                  \
  inline T hlog(T a) { return logf(a); }                                                      \
  inline T hlog2(T a) { return log2f(a); }                                                    \
  inline T hlog10(T a) { return log10f(a); }                                                  \
  inline T hsqrt(T a) { return sqrtf(a); }                                                    \
  inline T hrsqrt(T a) { return rsqrtf(a); }                                                  \
  inline T hrcp(T a) { return 1.0F / static_cast<float>(a); }                                 \
  inline T hsin(T a) { return sinf(a); }                                                      \
  inline T hcos(T a) { return cosf(a); }                                                      \
  inline T htanh(T a) { return tanhf(a); }                                                    \
  inline T hfloor(T a) { return floorf(a); }                                                  \
  inline T hceil(T a) { return ceilf(a); }                                                    \
  inline T htrunc(T a) { return truncf(a); }                                                  \
  inline T hrint(T a) { return rintf(a); }

/*! \brief Two of them in a word, as CUDA's __half2. */
template <typename T>
struct __attribute__((aligned(4))) NarrowPair {
  T x, y;
  NarrowPair() = default;
  NarrowPair(T a, T b) : x(a), y(b) {}
};

}  // namespace fake_driver

#endif  // TVM_IOS_TESTS_CUDA_DEVICE_NARROW_H_
