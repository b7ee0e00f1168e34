// SPDX-License-Identifier: Apache-2.0
/*!
 * \file capture.h
 * \brief A stream to work on, and CUDA graphs of what is issued there.
 */
#ifndef TVM_IOS_RUNTIME_CUDA_CAPTURE_H_
#define TVM_IOS_RUNTIME_CUDA_CAPTURE_H_

#include <functional>

#include "runtime/cuda/handles.h"

namespace tvm_ios {
namespace cuda {

/*! \brief A stream of its own, which has nothing left to do when it is destroyed. */
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
 * \brief What is issued on a stream, as a graph that can be launched.
 *
 * \param issue Is called once, and must leave all streams joined to this one.
 * \throw DeviceError for an error of the driver; what issue throws. The capture has ended then.
 */
GraphExecHandle CaptureGraph(Stream stream, const std::function<void()>& issue);

}  // namespace cuda
}  // namespace tvm_ios
#endif  // TVM_IOS_RUNTIME_CUDA_CAPTURE_H_
