// SPDX-License-Identifier: Apache-2.0
/*!
 * \file fiber.h
 * \brief A function with a stack of its own that can be left in the middle and gone on with.
 */
#ifndef TVM_IOS_TESTS_CUDA_FIBER_H_
#define TVM_IOS_TESTS_CUDA_FIBER_H_

#include <functional>

#include "cuda/guarded.h"

namespace fake_driver {

class Fiber {
 public:
  /*! \param body What a run of the fiber does. */
  explicit Fiber(std::function<void()> body);
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  /*! \brief Runs it until it pauses or its body has ended; then it begins anew. */
  void Resume();
  /*! \brief Goes back to whoever has resumed it; called from the body. */
  void Pause();
  /*! \brief Forgets where it was: it begins anew, without unwinding its stack. */
  void Abandon();

 private:
  [[noreturn]] static void Enter();

  std::function<void()> body_;
  Guarded stack_;
  void* here_{nullptr};  // stack pointers
  void* outside_{nullptr};
};

}  // namespace fake_driver
#endif  // TVM_IOS_TESTS_CUDA_FIBER_H_
