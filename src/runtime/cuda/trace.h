// SPDX-License-Identifier: Apache-2.0
/*!
 * \file trace.h
 * \brief Traces of the calls of a network's stages on their device, in a CUDA graph.
 */
#ifndef TVM_IOS_RUNTIME_CUDA_TRACE_H_
#define TVM_IOS_RUNTIME_CUDA_TRACE_H_

#include <cstdint>
#include <vector>

#include "runtime/cuda/stage.h"

namespace tvm_ios {
namespace cuda {

/*!
 * \brief Measure when each call begins and ends, in seconds since its run began, repeat times.
 *
 * The stages, which are on one device, follow one another in one graph, as in a compiled network.
 * In this graph every call is enclosed by two events on its stream. The events are nodes, which a
 * compiled network does not have, and take some time. The stages run once before they are captured,
 * and the graph once before it is timed.
 *
 * \param stages At least one.
 * \param repeat At least 1.
 * \return Begin and end of each call, in the order of stages and of their calls, run by run.
 * \throw DeviceError for an error of the driver, and any exception of a kernel.
 */
std::vector<double> Trace(const std::vector<Stage>& stages, int64_t repeat);

}  // namespace cuda
}  // namespace tvm_ios
#endif  // TVM_IOS_RUNTIME_CUDA_TRACE_H_
