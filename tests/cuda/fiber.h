// SPDX-License-Identifier: Apache-2.0
/*!
 * \file fiber.h
 * \brief A function with a stack of its own that can be left in the middle and gone on with.
 */
#ifndef TVM_IOS_TESTS_CUDA_FIBER_H_
#define TVM_IOS_TESTS_CUDA_FIBER_H_

#include <setjmp.h>

#include <functional>

#include "cuda/guarded.h"

namespace standin {

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
  void Abandon() { entered_ = false; }

 private:
  static void Enter(unsigned high, unsigned low);
  void Begin();

  std::function<void()> body_;
  Guarded stack_;
  bool entered_{false};
  jmp_buf here_{}, outside_{};
};

}  // namespace standin
#endif  // TVM_IOS_TESTS_CUDA_FIBER_H_
