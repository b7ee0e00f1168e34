// SPDX-License-Identifier: Apache-2.0
/*!
 * \file convolution.h
 * \brief What the fake cuDNN computes, in plain loops over host memory.
 */
#ifndef TVM_IOS_TESTS_CUDNN_CONVOLUTION_H_
#define TVM_IOS_TESTS_CUDNN_CONVOLUTION_H_

#include <array>
#include <cstddef>

namespace fake_driver {

enum DataType : int { kFloat = 0, kHalf = 2, kBfloat16 = 9 };
enum Format : int { kNchw = 0, kNhwc = 1 };

/*! \brief A tensor or a filter, with its sizes in the order n c h w whatever its format. */
struct Tensor4d {
  int type{-1};
  int format{-1};
  std::array<int, 4> size{};

  bool operator==(const Tensor4d& other) const {
    return type == other.type && format == other.format && size == other.size;
  }
  size_t Offset(int n, int c, int h, int w) const;
};

/*! \brief Windows, of rows and columns each. */
struct Windows {
  std::array<int, 2> padding{};
  std::array<int, 2> stride{};
  std::array<int, 2> dilation{};
  int groups{1};
};

/*! \brief Where the tensors are; there may be no z and no bias. */
struct Operands {
  const void* x;
  const void* w;
  const void* z;
  const void* bias;
  void* y;
};

/*! \brief y = x convolved with w + alpha2 * z + bias, and the larger of it and 0 where relu. */
void Convolve(const Tensor4d& x, const Tensor4d& w, const Tensor4d& y, const Windows& windows,
              const Operands& operands, float alpha2, bool relu);

}  // namespace fake_driver
#endif  // TVM_IOS_TESTS_CUDNN_CONVOLUTION_H_
