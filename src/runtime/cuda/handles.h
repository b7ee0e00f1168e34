// SPDX-License-Identifier: Apache-2.0
/*!
 * \file handles.h
 * \brief Owning handles of objects that the driver creates.
 */
#ifndef TVM_IOS_RUNTIME_CUDA_HANDLES_H_
#define TVM_IOS_RUNTIME_CUDA_HANDLES_H_

#include <memory>
#include <type_traits>

#include "runtime/cuda/driver.h"

namespace tvm_ios {
namespace cuda {

template <typename Handle, DriverCall<Handle> Driver::* kDestroy>
using Owned = std::unique_ptr<std::remove_pointer_t<Handle>, Destroyer<Driver, Handle, kDestroy>>;

using StreamHandle = Owned<Stream, &Driver::cuStreamDestroy>;
using EventHandle = Owned<Event, &Driver::cuEventDestroy>;
using GraphHandle = Owned<Graph, &Driver::cuGraphDestroy>;
using GraphExecHandle = Owned<GraphExec, &Driver::cuGraphExecDestroy>;

/*!
 * \brief Create a stream in the current context that does not wait for the legacy default stream.
 */
inline StreamHandle MakeStream() {
  Stream stream = nullptr;
  Driver::Get().cuStreamCreate(&stream, kStreamNonBlocking);
  return StreamHandle(stream);
}

/*! \brief Create an event in the current context. */
inline EventHandle MakeEvent(unsigned flags) {
  Event event = nullptr;
  Driver::Get().cuEventCreate(&event, flags);
  return EventHandle(event);
}

}  // namespace cuda
}  // namespace tvm_ios
#endif  // TVM_IOS_RUNTIME_CUDA_HANDLES_H_
