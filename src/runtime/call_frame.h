// SPDX-License-Identifier: Apache-2.0
/*!
 * \file call_frame.h
 * \brief The memory and the arguments of a driver, for one run at a time.
 */
#ifndef TVM_IOS_RUNTIME_CALL_FRAME_H_
#define TVM_IOS_RUNTIME_CALL_FRAME_H_

#include <tvm/ffi/any.h>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "runtime/call_tensor.h"

namespace tvm_ios {

/*! \brief What a parameter of a driver is: a tensor of that kind, by its number, or a number. */
struct DriverParameter {
  enum class Kind { kInput, kOutput, kWorkspace, kNumber };
  Kind kind;
  size_t number;
};

/*! \brief A driver, its tensors, and which of them its parameters are. */
struct CallPlan {
  ::tvm::ffi::Function driver;
  std::vector<TensorSpec> inputs;
  std::vector<TensorSpec> outputs;
  std::vector<TensorSpec> workspaces;
  std::vector<DriverParameter> parameters;
};

/*! \brief The arguments of a driver, its workspaces, and copies of tensors that it cannot use. */
class CallFrame {
 public:
  /*! \param plan Outlives this. */
  explicit CallFrame(const CallPlan& plan);
  CallFrame(const CallFrame&) = delete;
  CallFrame& operator=(const CallFrame&) = delete;

  /*!
   * \brief Let the driver read a tensor of the input's type.
   *
   * Each run copies it first if it is not contiguous or not aligned.
   */
  void SetInput(size_t number, const DLTensor& given);

  /*!
   * \brief Let the driver write a contiguous tensor of the output's type.
   *
   * If it is not aligned, each run writes other memory and copies that.
   */
  void SetOutput(size_t number, const DLTensor& given);

  /*! \brief Run the driver on the tensors that were set last. */
  void Run();

 private:
  /*! \brief A tensor as the driver takes it, and the caller's. */
  struct Place {
    DLTensor tensor;
    DLTensor given;
    AlignedBytes memory;  // allocated when it is first needed
    bool copied;
  };

  static std::vector<Place> PlacesOf(const std::vector<TensorSpec>& specs);
  static void Set(Place* place, const DLTensor& given, size_t bytes, bool usable);

  const CallPlan& plan_;
  std::vector<Place> inputs_;
  std::vector<Place> outputs_;
  std::vector<Place> workspaces_;
  std::vector<::tvm::ffi::AnyView> arguments_;
};

/*!
 * \brief The frames that no run uses.
 *
 * It has no lock: a process that is forked while another thread holds one finds it locked for ever.
 */
class FramePool {
 public:
  FramePool() = default;
  ~FramePool();
  FramePool(const FramePool&) = delete;
  FramePool& operator=(const FramePool&) = delete;

  /*! \brief Return a frame, or null if there is none. */
  std::unique_ptr<CallFrame> Take();

  /*! \brief Keep a frame; free it if enough are kept. */
  void Give(std::unique_ptr<CallFrame> frame);

 private:
  static constexpr size_t kKept = 64;
  std::array<std::atomic<CallFrame*>, kKept> frames_{};
};

}  // namespace tvm_ios
#endif  // TVM_IOS_RUNTIME_CALL_FRAME_H_
