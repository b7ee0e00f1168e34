// SPDX-License-Identifier: Apache-2.0
/*!
 * \file mma.h
 * \brief In place of CUDA's: matrices of a warp, each lane holding the same share of them.
 */
#ifndef TVM_IOS_TESTS_CUDA_DEVICE_INCLUDE_MMA_H_
#define TVM_IOS_TESTS_CUDA_DEVICE_INCLUDE_MMA_H_

#include "cuda/device/matrices.h"

namespace nvcuda {
namespace wmma {

struct matrix_a;
struct matrix_b;
struct accumulator;
struct row_major;
struct col_major;
enum layout_t { mem_row_major, mem_col_major };

namespace precision {
struct tf32;
}  // namespace precision

template <typename T>
struct Stored {
  using Type = T;
};
template <>
struct Stored<precision::tf32> {
  using Type = float;
};

/*! \brief What CUDA says nothing of: a lane holds elements that follow each other in a row. */
template <typename Use, int m, int n, int k, typename T, typename Layout = void>
struct fragment {
  static constexpr int kRows = std::is_same_v<Use, matrix_b> ? k : m;
  static constexpr int kColumns = std::is_same_v<Use, matrix_a> ? k : n;
  static constexpr bool kByColumns = std::is_same_v<Layout, col_major>;
  static constexpr int num_elements = kRows * kColumns / 32;
  using element_type = T;
  using storage_element_type = typename Stored<T>::Type;
  storage_element_type x[num_elements];
};

template <typename Use, int m, int n, int k, typename T, typename Layout, typename Value>
void fill_fragment(fragment<Use, m, n, k, T, Layout>& matrix, Value value) {
  for (auto& element : matrix.x) element = value;
}

/*! \brief Calls the function for each element of the lane: its number, and where it is in memory.
 */
template <typename Fragment, typename T, typename Visit>
void ForElements(T* memory, unsigned pitch, bool by_columns, Visit visit) {
  constexpr unsigned kBytes = sizeof(T);
  fake_driver::Demand(reinterpret_cast<uintptr_t>(memory) % 32 == 0, "a matrix is not at 32 bytes");
  fake_driver::Demand(pitch * kBytes % 16 == 0, "rows of a matrix are not multiples of 16 bytes");
  const int first = static_cast<int>(fake_driver::LaneId()) * Fragment::num_elements;
  for (int i = 0; i < Fragment::num_elements; ++i) {
    const int row = (first + i) / Fragment::kColumns, column = (first + i) % Fragment::kColumns;
    visit(i, memory[by_columns ? column * pitch + row : row * pitch + column]);
  }
}

template <typename Use, int m, int n, int k, typename T, typename Layout, typename From>
void load_matrix_sync(fragment<Use, m, n, k, T, Layout>& matrix, const From* memory, unsigned pitch,
                      int line = __builtin_LINE()) {
  using Fragment = fragment<Use, m, n, k, T, Layout>;
  __syncwarp(0xffffffffU, line);
  ForElements<Fragment>(memory, pitch, Fragment::kByColumns,
                        [&](int i, const From& value) { matrix.x[i] = value; });
}

template <int m, int n, int k, typename T, typename From>
void load_matrix_sync(fragment<accumulator, m, n, k, T>& matrix, const From* memory, unsigned pitch,
                      layout_t layout, int line = __builtin_LINE()) {
  __syncwarp(0xffffffffU, line);
  ForElements<fragment<accumulator, m, n, k, T>>(
      memory, pitch, layout == mem_col_major,
      [&](int i, const From& value) { matrix.x[i] = value; });
}

template <int m, int n, int k, typename T, typename To>
void store_matrix_sync(To* memory, const fragment<accumulator, m, n, k, T>& matrix, unsigned pitch,
                       layout_t layout, int line = __builtin_LINE()) {
  __syncwarp(0xffffffffU, line);
  ForElements<fragment<accumulator, m, n, k, T>>(memory, pitch, layout == mem_col_major,
                                                 [&](int i, To& value) { value = matrix.x[i]; });
}

/*! \brief What the lanes hold of a matrix, in one piece. */
template <typename T, typename Fragment>
void Collect(const Fragment& part, unsigned lane, float* matrix) {
  for (int i = 0; i < Fragment::num_elements; ++i) {
    matrix[lane * Fragment::num_elements + i] = fake_driver::Operand<T>(part.x[i]);
  }
}

template <typename A, typename B, typename C>
struct Product {
  const A* a;
  const B* b;
  const C* c;
  C* result;

  static void Resolve(void* const* records, unsigned lanes) {
    constexpr int kM = A::kRows, kN = B::kColumns, kK = A::kColumns;
    static float a[kM * kK], b[kK * kN], c[kM * kN];
    fake_driver::Demand(lanes == 0xffffffffU, "a product of matrices without the whole warp");
    for (unsigned lane = 0; lane < 32; ++lane) {
      const auto& mine = *static_cast<const Product*>(records[lane]);
      Collect<typename A::element_type>(*mine.a, lane, a);
      Collect<typename B::element_type>(*mine.b, lane, b);
      Collect<float>(*mine.c, lane, c);
    }
    fake_driver::Multiply<kM, kN, kK>(a, b, c);
    for (unsigned lane = 0; lane < 32; ++lane) {
      C& result = *static_cast<const Product*>(records[lane])->result;
      for (int i = 0; i < C::num_elements; ++i) result.x[i] = c[lane * C::num_elements + i];
    }
  }
};

template <int m, int n, int k, typename T, typename U, typename LayoutA, typename LayoutB>
void mma_sync(fragment<accumulator, m, n, k, U>& d,
              const fragment<matrix_a, m, n, k, T, LayoutA>& a,
              const fragment<matrix_b, m, n, k, T, LayoutB>& b,
              const fragment<accumulator, m, n, k, U>& c, int line = __builtin_LINE()) {
  using Mine = Product<fragment<matrix_a, m, n, k, T, LayoutA>,
                       fragment<matrix_b, m, n, k, T, LayoutB>, fragment<accumulator, m, n, k, U>>;
  Mine product{&a, &b, &c, &d};
  StandInCollective(0xffffffffU, line, &product, Mine::Resolve);
}

inline float __float_to_tf32(float x) { return fake_driver::RoundToTf32(x); }

}  // namespace wmma
}  // namespace nvcuda

using nvcuda::wmma::__float_to_tf32;

namespace fake_driver {
template <>
inline float Operand<nvcuda::wmma::precision::tf32>(float x) {
  return TruncateToTf32(x);
}
}  // namespace fake_driver

#endif  // TVM_IOS_TESTS_CUDA_DEVICE_INCLUDE_MMA_H_
