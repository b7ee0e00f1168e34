// SPDX-License-Identifier: Apache-2.0
/*!
 * \file timing.h
 * \brief How long a stage takes on its device, in a CUDA graph.
 */
#ifndef TVM_IOS_RUNTIME_CUDA_TIMING_H_
#define TVM_IOS_RUNTIME_CUDA_TIMING_H_

#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/optional.h>

#include <cstdint>
#include <vector>

#include "runtime/cuda/stage.h"

namespace tvm_ios {
namespace cuda {

/*!
 * \brief Seconds per run, repeat times, each from one launch of a graph of all runs.
 *
 * A stage is timed as it will run: a scheduled model is one graph, where a launch costs a fraction
 * of what it costs on a stream. The runs of the graph follow one another; they may differ in the
 * places of their tensors. The first runs once before all are captured, and the graph once before
 * it is timed.
 *
 * \param runs At least one, all on one device.
 * \param repeat At least 1.
 * \param filler Memory of the device as large as its second cache, written before each launch that
 *  is timed: runs that each read weights of their own then read them from memory.
 * \throw DeviceError for an error of the driver; what a kernel throws.
 */
std::vector<double> Time(const std::vector<Stage>& runs, int64_t repeat,
                         const ::tvm::ffi::Optional<::tvm::ffi::Tensor>& filler = std::nullopt);

}  // namespace cuda
}  // namespace tvm_ios
#endif  // TVM_IOS_RUNTIME_CUDA_TIMING_H_
