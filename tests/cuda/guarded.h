// SPDX-License-Identifier: Apache-2.0
/*!
 * \file guarded.h
 * \brief Memory between pages that must not be touched.
 */
#ifndef TVM_IOS_TESTS_CUDA_GUARDED_H_
#define TVM_IOS_TESTS_CUDA_GUARDED_H_

#include <cstddef>

namespace fake_driver {

/*! \brief What memory is filled with that nobody has written: NaN in every type of number. */
inline constexpr int kPoison = 0xff;

class Guarded {
 public:
  /*!
   * \param bytes What is used of it lies at its end: whoever goes beyond is caught at once.
   * \throw std::bad_alloc
   */
  explicit Guarded(size_t bytes);
  ~Guarded();
  Guarded(const Guarded&) = delete;
  Guarded& operator=(const Guarded&) = delete;

  unsigned char* begin() const { return begin_; }
  unsigned char* end() const { return begin_ + bytes_; }
  /*! \brief So many bytes of it. */
  unsigned char* Last(size_t bytes, size_t alignment) const;
  /*! \brief Whether an address is right behind it. */
  bool IsBehind(const void* address) const;

 private:
  size_t bytes_;
  unsigned char* begin_;
};

}  // namespace fake_driver
#endif  // TVM_IOS_TESTS_CUDA_GUARDED_H_
