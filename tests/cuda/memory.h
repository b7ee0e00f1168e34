// SPDX-License-Identifier: Apache-2.0
/*!
 * \file memory.h
 * \brief Device memory, which is memory of the host.
 */
#ifndef TVM_IOS_TESTS_CUDA_MEMORY_H_
#define TVM_IOS_TESTS_CUDA_MEMORY_H_

#include <cstddef>
#include <map>

namespace standin {

/*! \brief Each piece lies between pages that must not be touched, and holds NaN to begin with. */
class Memory {
 public:
  /*! \return No memory where there is not enough. */
  void* Allocate(size_t bytes);
  /*! \return Whether it was memory. */
  bool Free(void* memory);
  /*! \brief Whether it lies in a piece. */
  bool Contains(const void* address) const;

 private:
  struct Piece {
    void* mapped;
    size_t mapped_bytes;
  };
  std::map<const void*, Piece> pieces_;
};

}  // namespace standin
#endif  // TVM_IOS_TESTS_CUDA_MEMORY_H_
