// SPDX-License-Identifier: Apache-2.0
/*!
 * \file fcm1.h
 * \brief FCM-1: a synthetic cost of stages in whole nanoseconds, to test searches without a device.
 *
 * A stage costs 5000 to start and 1000 for each group but the first. Its groups run concurrently
 * until the machine is full. Merged convolutions become one with the sum of their output channels
 * and the largest kernel and padding.
 */
#ifndef TVM_IOS_SEARCH_FCM1_H_
#define TVM_IOS_SEARCH_FCM1_H_

#include <array>
#include <cstdint>
#include <vector>

#include "search/bounded.h"

namespace tvm_ios {

/*! \brief An operator of FCM-1; only a convolution that may be merged has a shape. */
struct Fcm1Operator {
  int64_t length;  //!< Nanoseconds with as much of the machine as it can use.
  int64_t work;    //!< Nanoseconds on the whole machine.
  int64_t in_channels, out_channels, groups;
  std::array<int64_t, 2> in_size, kernel, padding, stride;
};

/*! \brief Return the model; its costs are in nanoseconds. */
StageModel Fcm1(std::vector<Fcm1Operator> operators);

}  // namespace tvm_ios
#endif  // TVM_IOS_SEARCH_FCM1_H_
