// SPDX-License-Identifier: Apache-2.0
/*!
 * \file scopes.h
 * \brief What is current for the calling thread: the device's context, and the stream of kernels.
 */
#ifndef TVM_IOS_RUNTIME_CUDA_SCOPES_H_
#define TVM_IOS_RUNTIME_CUDA_SCOPES_H_

#include <cstdint>

#include "runtime/cuda/driver.h"

namespace tvm_ios {
namespace cuda {

/*! \brief While it lives, the device's primary context, which TVM uses, too, is current. */
class ContextScope {
 public:
  /*! \throw DeviceError where there is no such device. */
  explicit ContextScope(int device_id);
  ~ContextScope();
  ContextScope(const ContextScope&) = delete;
  ContextScope& operator=(const ContextScope&) = delete;
};

/*! \brief The driver's name of a device. \throw DeviceError where there is no such device. */
Device FindDevice(int64_t device_id);

/*! \brief While it lives, captures of other threads do not forbid this one to make things. */
class RelaxedScope {
 public:
  RelaxedScope() { Driver::Get().cuThreadExchangeStreamCaptureMode(&mode_); }
  ~RelaxedScope() { Driver::Get().cuThreadExchangeStreamCaptureMode.Try(&mode_); }
  RelaxedScope(const RelaxedScope&) = delete;
  RelaxedScope& operator=(const RelaxedScope&) = delete;

 private:
  int mode_{kCaptureRelaxed};  // then the one before, which the exchange gives back
};

/*! \brief Whether what is issued on the stream becomes a part of a graph. */
bool IsCapturing(Stream stream);

/*! \brief The stream that this thread's kernels are launched on. */
Stream CurrentStream(int device_id);

/*! \brief While it lives, TVM's kernels are launched on the stream that it was last given. */
class StreamScope {
 public:
  explicit StreamScope(int device_id);
  ~StreamScope();
  StreamScope(const StreamScope&) = delete;
  StreamScope& operator=(const StreamScope&) = delete;

  /*! \brief The stream that was current before. */
  Stream original() const { return original_; }
  void Set(Stream stream);

 private:
  const int device_id_;
  const Stream original_;
  Stream current_;
};

}  // namespace cuda
}  // namespace tvm_ios
#endif  // TVM_IOS_RUNTIME_CUDA_SCOPES_H_
