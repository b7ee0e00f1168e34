// SPDX-License-Identifier: Apache-2.0
/*!
 * \file capture.h
 * \brief A private stream, and CUDA graphs of the work issued on a stream.
 */
#ifndef TVM_IOS_RUNTIME_CUDA_CAPTURE_H_
#define TVM_IOS_RUNTIME_CUDA_CAPTURE_H_

#include <functional>

#include "runtime/cuda/handles.h"

namespace tvm_ios {
namespace cuda {

/*! \brief A private stream; the destructor waits until its work is done. */
class Workplace {
 public:
  Workplace() : stream_(MakeStream()) {}
  ~Workplace() { Driver::Get().cuStreamSynchronize.Try(stream_.get()); }
  Workplace(const Workplace&) = delete;
  Workplace& operator=(const Workplace&) = delete;

  Stream stream() const { return stream_.get(); }

 private:
  const StreamHandle stream_;
};

/*!
 * \brief Capture the work that issue puts on a stream as a graph that can be launched.
 * \param issue Called once; it must leave all streams joined to this one.
 * \throw DeviceError for an error of the driver, and any exception of issue. The capture has ended
 *  then.
 */
GraphExecHandle CaptureGraph(Stream stream, const std::function<void()>& issue);

}  // namespace cuda
}  // namespace tvm_ios
#endif  // TVM_IOS_RUNTIME_CUDA_CAPTURE_H_
