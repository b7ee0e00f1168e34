// SPDX-License-Identifier: Apache-2.0
/*!
 * \file stage.h
 * \brief Runs a stage on parallel streams of a CUDA device.
 */
#ifndef TVM_IOS_RUNTIME_CUDA_STAGE_H_
#define TVM_IOS_RUNTIME_CUDA_STAGE_H_

#include <tvm/ffi/any.h>
#include <tvm/ffi/function.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "runtime/cuda/program.h"

namespace tvm_ios {
namespace cuda {

class GraphEvents;

/*!
 * \brief The calls of a stage, packed from the arguments of one packed function.
 *
 * Stream 0 is the device's current stream. The others are forked from it by an event and joined to
 * it again. To its caller, a stage thus behaves like one kernel on the current stream: later work
 * there waits for it, memory may be freed as after any kernel, and a capture of the current stream
 * contains all of it.
 */
class Stage {
 public:
  /*!
   * \brief Check the arguments; nothing is launched before all of them are valid.
   * \param args The program (a Shape, see ReadProgram), the kernels (Functions), and the tensors,
   *  all on one CUDA device; the last one is the workspace if the program has parts. They must
   * outlive the stage, which only holds views of them.
   * \throw ffi::Error, a TypeError or a ValueError, for invalid arguments.
   */
  explicit Stage(::tvm::ffi::PackedArgs args);

  /*! \brief A call of a kernel, and what it holds on to. */
  struct Call {
    ::tvm::ffi::Function kernel;
    size_t stream;
    std::vector<size_t> waits;  // earlier calls, on other streams
    std::vector<::tvm::ffi::Any> tensors;
  };

  /*!
   * \brief Make a stage of calls in the order in which they are issued.
   * \param num_streams At least one; the calls are on all of them.
   *  Those on one stream follow one another, and each follows the calls that it waits for.
   * \throw ffi::Error, a ValueError, if there is a stream without a call.
   */
  Stage(int device_id, size_t num_streams, std::vector<Call> calls);

  int device_id() const { return device_id_; }
  size_t num_calls() const { return calls_.size(); }

  /*!
   * \brief Issue the stage.
   *
   * When a kernel throws, the streams are joined nevertheless, and the error is rethrown. A stage
   * with several streams must have run before on the same thread if it is captured.
   *
   * \param events If given, one event is recorded before and one after each call, on its stream,
   *  which must be captured.
   * \throw DeviceError for an error of the driver.
   */
  void Run(GraphEvents* events = nullptr) const;

 private:
  void Issue(const Call& call, GraphEvents* events) const;
  void RunOnSeveral(GraphEvents* events) const;
  /*! \brief The calls that others wait for, in their order. */
  std::vector<size_t> Awaited() const;

  int device_id_{0};
  size_t num_streams_{1};
  std::vector<Call> calls_;
};

/*!
 * \brief Check that there are stages on one device, and that repeat is from 1 to a million.
 * \throw ffi::Error, a ValueError, if not.
 */
void CheckStages(const std::vector<Stage>& stages, int64_t repeat);

}  // namespace cuda
}  // namespace tvm_ios
#endif  // TVM_IOS_RUNTIME_CUDA_STAGE_H_
