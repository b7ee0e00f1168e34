// SPDX-License-Identifier: Apache-2.0
/*!
 * \file launch.h
 * \brief How fakes of other libraries of NVIDIA's launch what they compute.
 */
#ifndef TVM_IOS_TESTS_CUDA_LAUNCH_H_
#define TVM_IOS_TESTS_CUDA_LAUNCH_H_

#include <functional>
#include <string>

#include "cuda/driver.h"
#include "cuda/results.h"

/*!
 * \brief A launch on a stream of the current device.
 *
 * The work is done at once or, if the stream is captured, whenever the graph is launched. It may
 * not call the driver.
 */
__attribute__((visibility("default"))) int StandInLaunch(
    Handle stream, const std::string& name, const std::function<fake_driver::Result()>& work);

#endif  // TVM_IOS_TESTS_CUDA_LAUNCH_H_
