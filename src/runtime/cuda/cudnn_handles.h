// SPDX-License-Identifier: Apache-2.0
/*!
 * \file cudnn_handles.h
 * \brief cuDNN's handles, which no two threads may use at once.
 *
 * A handle may have streams of its own inside, which work for the stream that it was last given. So
 * each host thread has several per device, one for each stream that it uses, as far as they reach.
 * What a thread leaves behind when it ends goes to the next one.
 */
#ifndef TVM_IOS_RUNTIME_CUDA_CUDNN_HANDLES_H_
#define TVM_IOS_RUNTIME_CUDA_CUDNN_HANDLES_H_

#include "runtime/cuda/cudnn.h"

namespace tvm_ios {
namespace cuda {

/*!
 * \brief A handle of the calling thread that works on the stream.
 *
 * The device's context must be current. Where the stream has none, one is made, except while the
 * stream is captured: cuDNN must have been used before on the same thread.
 *
 * \throw DeviceError where there is no cuDNN, or the device has no room for it.
 */
CudnnContext HandleFor(int device_id, Stream stream);

}  // namespace cuda
}  // namespace tvm_ios
#endif  // TVM_IOS_RUNTIME_CUDA_CUDNN_HANDLES_H_
