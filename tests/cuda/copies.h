// SPDX-License-Identifier: Apache-2.0
/*!
 * \file copies.h
 * \brief Asynchronous copies of a thread to shared memory (cp.async).
 */
#ifndef TVM_IOS_TESTS_CUDA_COPIES_H_
#define TVM_IOS_TESTS_CUDA_COPIES_H_

#include <cstddef>
#include <deque>
#include <vector>

namespace fake_driver {

/*! \brief They are done as late as a program may find them: when it waits for them. */
class Copies {
 public:
  void Add(void* to, const void* from, unsigned bytes, unsigned read);
  void Commit();
  /*! \brief Does all but so many of the last groups. */
  void Await(size_t groups);
  /*! \brief Does all of them, as happens when a thread ends. */
  void Finish();
  void Clear();

 private:
  struct Copy {
    void* to;
    const void* from;
    unsigned bytes, read;
  };
  using Group = std::vector<Copy>;

  Group open_;
  std::deque<Group> groups_;
};

}  // namespace fake_driver
#endif  // TVM_IOS_TESTS_CUDA_COPIES_H_
