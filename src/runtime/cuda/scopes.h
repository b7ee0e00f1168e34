// SPDX-License-Identifier: Apache-2.0
/*!
 * \file scopes.h
 * \brief Scopes that set the calling thread's device context and its stream of kernels.
 */
#ifndef TVM_IOS_RUNTIME_CUDA_SCOPES_H_
#define TVM_IOS_RUNTIME_CUDA_SCOPES_H_

#include <cstdint>

#include "runtime/cuda/driver.h"

namespace tvm_ios {
namespace cuda {

/*! \brief A scope in which the device's primary context, which TVM uses, too, is current. */
class ContextScope {
 public:
  /*! \throw DeviceError if there is no such device. */
  explicit ContextScope(int device_id);
  ~ContextScope();
  ContextScope(const ContextScope&) = delete;
  ContextScope& operator=(const ContextScope&) = delete;
};

/*! \brief Return the driver's handle of a device. \throw DeviceError if there is no such device. */
Device FindDevice(int64_t device_id);

/*!
 * \brief A scope in which captures of other threads do not forbid this thread to create objects.
 */
class RelaxedScope {
 public:
  RelaxedScope() { Driver::Get().cuThreadExchangeStreamCaptureMode(&mode_); }
  ~RelaxedScope() { Driver::Get().cuThreadExchangeStreamCaptureMode.Try(&mode_); }
  RelaxedScope(const RelaxedScope&) = delete;
  RelaxedScope& operator=(const RelaxedScope&) = delete;

 private:
  int mode_{kCaptureRelaxed};  // later the previous mode, which the exchange returns
};

/*! \brief Return whether work issued on the stream becomes part of a graph. */
bool IsCapturing(Stream stream);

/*! \brief Return the stream that this thread's kernels are launched on. */
Stream CurrentStream(int device_id);

/*! \brief A scope in which TVM's kernels are launched on the stream that was set last. */
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
