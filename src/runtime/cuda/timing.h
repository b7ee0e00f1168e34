// SPDX-License-Identifier: Apache-2.0
/*!
 * \file timing.h
 * \brief How long a stage takes on its device, in a CUDA graph.
 */
#ifndef TVM_IOS_RUNTIME_CUDA_TIMING_H_
#define TVM_IOS_RUNTIME_CUDA_TIMING_H_

#include <cstdint>
#include <vector>

#include "runtime/cuda/stage.h"

namespace tvm_ios {
namespace cuda {

/*!
 * \brief Seconds per run, repeat times, each from one launch of a graph of number runs.
 *
 * A stage is timed as it will run: a scheduled model is one graph, where a launch costs a fraction
 * of what it costs on a stream. The runs of a graph follow one another. The stage runs once before
 * it is captured, and the graph once before it is timed.
 *
 * \param number, repeat At least 1.
 * \throw DeviceError for an error of the driver; what a kernel throws.
 */
std::vector<double> Time(const Stage& stage, int64_t number, int64_t repeat);

}  // namespace cuda
}  // namespace tvm_ios
#endif  // TVM_IOS_RUNTIME_CUDA_TIMING_H_
