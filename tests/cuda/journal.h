// SPDX-License-Identifier: Apache-2.0
/*!
 * \file journal.h
 * \brief What the driver was asked, for tests to read, and what they want it to refuse.
 */
#ifndef TVM_IOS_TESTS_CUDA_JOURNAL_H_
#define TVM_IOS_TESTS_CUDA_JOURNAL_H_

#include <map>
#include <string>
#include <thread>

#include "cuda/results.h"

namespace fake_driver {

/*! \brief Lines "thread: what", threads numbered in the order in which they appear. */
class Journal {
 public:
  void Write(const std::string& what);
  /*! \brief Writes down something that a correct program never does; returns the result. */
  Result Misuse(Result result, const std::string& what);
  /*!
   * \brief Whether this call of a function is to fail, and how.
   *
   * TVM_IOS_FAKE_DRIVER_FAIL=FUNCTION:N:RESULT fails the N-th call since Clear.
   */
  Result Fault(const char* function);
  void Clear();

  const std::string& text() const { return text_; }

 private:
  std::string text_;
  std::map<std::thread::id, int> threads_;
  std::map<std::string, int> calls_;
};

}  // namespace fake_driver
#endif  // TVM_IOS_TESTS_CUDA_JOURNAL_H_
