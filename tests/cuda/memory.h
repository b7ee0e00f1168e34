// SPDX-License-Identifier: Apache-2.0
/*!
 * \file memory.h
 * \brief Device memory, which is memory of the host.
 */
#ifndef TVM_IOS_TESTS_CUDA_MEMORY_H_
#define TVM_IOS_TESTS_CUDA_MEMORY_H_

#include <cstddef>
#include <map>
#include <memory>

#include "cuda/guarded.h"

namespace fake_driver {

constexpr size_t kMemoryBytes = size_t{16} << 30;

/*! \brief Pieces that hold NaN to begin with. */
class Memory {
 public:
  /*! \return No memory where there is not enough. */
  void* Allocate(size_t bytes);
  /*! \return Whether it was memory. */
  bool Free(void* memory);
  /*! \brief Whether an address lies in a piece. */
  bool Contains(const void* address) const;

 private:
  struct Piece {
    std::unique_ptr<Guarded> memory;
    size_t bytes;
  };

  std::map<const void*, Piece> pieces_;
  size_t used_ = 0;
};

}  // namespace fake_driver
#endif  // TVM_IOS_TESTS_CUDA_MEMORY_H_
