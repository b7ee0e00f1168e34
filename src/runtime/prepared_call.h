// SPDX-License-Identifier: Apache-2.0
/*!
 * \file prepared_call.h
 * \brief Calls of a network's driver on a CPU with the caller's tensors.
 *
 * Callers have NumPy's arrays, and NumPy exports no bfloat16. They give and get such tensors as
 * uint16, their bits.
 */
#ifndef TVM_IOS_RUNTIME_PREPARED_CALL_H_
#define TVM_IOS_RUNTIME_PREPARED_CALL_H_

#include <tvm/ffi/any.h>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

#include <atomic>
#include <vector>

#include "runtime/call_frame.h"

namespace tvm_ios {

/*!
 * \brief A driver, ready to be called.
 *
 * Any number of threads may call one at the same time: each run has a frame of its own.
 */
class PreparedCall {
 public:
  /*!
   * \throw ffi::Error, a ValueError, if an output is not exactly one parameter, or a parameter is
   * no tensor of the plan.
   */
  explicit PreparedCall(CallPlan plan);

  /*!
   * \brief Run the driver.
   * \return The output if there is one, else an array of them; each in memory of its own.
   */
  ::tvm::ffi::Any Run(::tvm::ffi::PackedArgs inputs) const;

  /*!
   * \brief Run the driver and write its outputs to given tensors.
   * \param tensors The inputs, then the outputs.
   */
  void RunInto(::tvm::ffi::PackedArgs tensors) const;

  const CallPlan& plan() const { return plan_; }

 private:
  class Lease;

  const CallPlan plan_;
  mutable FramePool frames_;
};

/*! \brief A driver with the tensors that each run reads and writes, which it keeps alive. */
class BoundCall {
 public:
  /*!
   * \param plan Outlives this.
   * \param tensors The inputs, then the outputs.
   */
  BoundCall(const CallPlan& plan, ::tvm::ffi::PackedArgs tensors);

  /*! \throw ffi::Error, a RuntimeError, if another thread runs it. */
  void Run();

 private:
  std::vector<::tvm::ffi::Tensor> tensors_;
  CallFrame frame_;
  std::atomic<bool> running_{false};
};

}  // namespace tvm_ios
#endif  // TVM_IOS_RUNTIME_PREPARED_CALL_H_
