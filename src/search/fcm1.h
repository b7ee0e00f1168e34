// SPDX-License-Identifier: Apache-2.0
/*!
 * \file fcm1.h
 * \brief FCM-1: a cost of stages in whole nanoseconds that asks no device, to test searches with.
 *
 * A stage costs 5000 to start and 1000 for each group but the first; its groups run side by side
 * until the machine is full. Merged convolutions are one of the sum of their output channels and
 * of the largest kernel and padding.
 */
#ifndef TVM_IOS_SEARCH_FCM1_H_
#define TVM_IOS_SEARCH_FCM1_H_

#include <array>
#include <cstdint>
#include <vector>

#include "search/bounded.h"

namespace tvm_ios {

/*! \brief What FCM-1 knows of an operator; only a convolution that may be merged has a shape. */
struct Fcm1Operator {
  int64_t length;  //!< Nanoseconds with enough of the machine.
  int64_t work;    //!< Nanoseconds of the whole machine.
  int64_t in_channels, out_channels, groups;
  std::array<int64_t, 2> in_size, kernel, padding, stride;
};

/*! \brief The model's costs in nanoseconds. */
StageModel Fcm1(std::vector<Fcm1Operator> operators);

}  // namespace tvm_ios
#endif  // TVM_IOS_SEARCH_FCM1_H_
