// SPDX-License-Identifier: Apache-2.0
#include "cudnn/convolution.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <initializer_list>

namespace fake_driver {
namespace {

float FromBits(uint32_t bits) {
  float value = 0;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

uint32_t ToBits(float value) {
  uint32_t bits = 0;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits;
}

float FromHalf(uint16_t half) {
  const int exponent = half >> 10 & 31, fraction = half & 1023;
  const float sign = half >> 15 != 0 ? -1.0F : 1.0F;
  if (exponent == 31) return sign * (fraction != 0 ? NAN : INFINITY);
  if (exponent == 0) return sign * std::ldexp(static_cast<float>(fraction), -24);
  return sign * std::ldexp(static_cast<float>(1024 + fraction), exponent - 25);
}

/*! \brief The nearest one, of two the even one. */
uint16_t ToHalf(float value) {
  const auto sign = static_cast<uint16_t>(std::signbit(value) ? 0x8000 : 0);
  const float size = std::fabs(value);
  if (std::isnan(value)) return static_cast<uint16_t>(sign | 0x7e00);
  if (size >= 65520.0F) return static_cast<uint16_t>(sign | 0x7c00);
  int exponent = 0;
  std::frexp(size, &exponent);
  const int last = std::max(exponent - 11, -24);  // the weight of the last bit
  const int fraction = static_cast<int>(std::nearbyint(std::ldexp(size, -last)));
  // Zero and what is below the normal numbers has no implicit bit, which else adds to the exponent.
  const int biased = fraction < 1024 ? fraction : ((last + 24) << 10) + fraction;
  return static_cast<uint16_t>(sign | biased);
}

float Load(const void* data, int type, size_t index) {
  if (type == kFloat) return static_cast<const float*>(data)[index];
  const uint16_t bits = static_cast<const uint16_t*>(data)[index];
  return type == kHalf ? FromHalf(bits) : FromBits(uint32_t{bits} << 16);
}

void Store(void* data, int type, size_t index, float value) {
  if (type == kFloat) {
    static_cast<float*>(data)[index] = value;
  } else if (type == kHalf) {
    static_cast<uint16_t*>(data)[index] = ToHalf(value);
  } else {
    const uint32_t bits = ToBits(value);
    static_cast<uint16_t*>(data)[index] =
        static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
  }
}

/*! \brief The sum over one window. */
float Sum(const Tensor4d& x, const Tensor4d& w, const Windows& windows, const Operands& operands,
          const std::array<int, 4>& at, int first_channel) {
  float sum = 0;
  for (int row = 0; row < w.size[2]; ++row) {
    const int h = at[2] * windows.stride[0] - windows.padding[0] + row * windows.dilation[0];
    if (h < 0 || h >= x.size[2]) continue;
    for (int column = 0; column < w.size[3]; ++column) {
      const int v = at[3] * windows.stride[1] - windows.padding[1] + column * windows.dilation[1];
      if (v < 0 || v >= x.size[3]) continue;
      for (int c = 0; c < w.size[1]; ++c) {
        sum += Load(operands.x, x.type, x.Offset(at[0], first_channel + c, h, v)) *
               Load(operands.w, w.type, w.Offset(at[1], c, row, column));
      }
    }
  }
  return sum;
}

}  // namespace

size_t Tensor4d::Offset(int n, int c, int h, int w) const {
  const auto flat = [](std::initializer_list<std::array<int, 2>> axes) {
    size_t offset = 0;
    for (const auto& [extent, index] : axes) {
      offset = offset * static_cast<size_t>(extent) + static_cast<size_t>(index);
    }
    return offset;
  };
  if (format == kNhwc) return flat({{size[0], n}, {size[2], h}, {size[3], w}, {size[1], c}});
  return flat({{size[0], n}, {size[1], c}, {size[2], h}, {size[3], w}});
}

void Convolve(const Tensor4d& x, const Tensor4d& w, const Tensor4d& y, const Windows& windows,
              const Operands& operands, float alpha2, bool relu) {
  const int per_group = y.size[1] / windows.groups;
  for (int n = 0; n < y.size[0]; ++n) {
    for (int c = 0; c < y.size[1]; ++c) {
      for (int h = 0; h < y.size[2]; ++h) {
        for (int v = 0; v < y.size[3]; ++v) {
          const size_t at = y.Offset(n, c, h, v);
          float value = Sum(x, w, windows, operands, {n, c, h, v}, c / per_group * w.size[1]);
          if (alpha2 != 0) value += alpha2 * Load(operands.z, y.type, at);
          if (operands.bias != nullptr) {
            value += Load(operands.bias, y.type, static_cast<size_t>(c));
          }
          Store(operands.y, y.type, at, relu ? std::max(value, 0.0F) : value);
        }
      }
    }
  }
}

}  // namespace fake_driver
