// SPDX-License-Identifier: Apache-2.0
/*!
 * \file cudnn_handles.h
 * \brief cuDNN's handles, which no two threads may use at once.
 *
 * A handle may use internal streams, which work for the stream that it was last given. Each host
 * thread therefore has several handles per device, one for each stream that it uses, up to a limit.
 * When a thread ends, other threads take over its handles.
 */
#ifndef TVM_IOS_RUNTIME_CUDA_CUDNN_HANDLES_H_
#define TVM_IOS_RUNTIME_CUDA_CUDNN_HANDLES_H_

#include "runtime/cuda/cudnn.h"

namespace tvm_ios {
namespace cuda {

/*!
 * \brief Return a handle of the calling thread that works on the stream.
 *
 * The device's context must be current. If the stream has no handle, one is created, unless the
 * stream is captured: cuDNN must have been used before on the same thread.
 *
 * \throw DeviceError if there is no cuDNN, or no room for it on the device.
 */
CudnnContext HandleFor(int device_id, Stream stream);

}  // namespace cuda
}  // namespace tvm_ios
#endif  // TVM_IOS_RUNTIME_CUDA_CUDNN_HANDLES_H_
