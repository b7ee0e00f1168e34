// SPDX-License-Identifier: Apache-2.0
/*!
 * \file timing.h
 * \brief Timing of a stage on its device, in a CUDA graph.
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
 * \brief Measure the seconds per run, repeat times, each from one launch of a graph of all runs.
 *
 * A stage is timed as it will be deployed: a compiled network is one graph, in which a launch costs
 * a fraction of its cost on a stream. The runs of the graph follow one another. Their tensors may
 * be in different places. The first run is executed once before all are captured, and the graph
 * once before it is timed.
 *
 * \param runs At least one, all on one device.
 * \param repeat At least 1.
 * \param filler Memory of the device as large as its L2 cache, written before each timed launch:
 *  runs that each read their own weights then read them from memory.
 * \throw DeviceError for an error of the driver, and any exception of a kernel.
 */
std::vector<double> Time(const std::vector<Stage>& runs, int64_t repeat,
                         const ::tvm::ffi::Optional<::tvm::ffi::Tensor>& filler = std::nullopt);

}  // namespace cuda
}  // namespace tvm_ios
#endif  // TVM_IOS_RUNTIME_CUDA_TIMING_H_
