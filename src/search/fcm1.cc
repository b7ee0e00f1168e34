// SPDX-License-Identifier: Apache-2.0
#include "search/fcm1.h"

#include <algorithm>
#include <string>
#include <utility>

#include "support/checked.h"
#include "support/error.h"

namespace tvm_ios {
namespace {

constexpr int64_t kStage = 5000, kGroup = 1000;
constexpr int64_t kLaunch = 2000;
constexpr int64_t kFlops = 8000, kBytes = 400;  // per nanosecond
constexpr int64_t kFull = 327680;               // outputs that occupy the whole machine
constexpr int64_t kLeast = 50, kAll = 1000;     // thousandths of the machine

int64_t Value(CheckedInt number) {
  if (number.value()) return *number.value();
  throw OptionError("the merged operators are too large for their cost to be counted");
}

void CheckConvolution(const Fcm1Operator& op, int index) {
  const int64_t least =
      std::min({op.in_channels, op.out_channels, op.groups, op.in_size[0], op.in_size[1],
                op.kernel[0], op.kernel[1], op.stride[0], op.stride[1]});
  if (least >= 1 && std::min(op.padding[0], op.padding[1]) >= 0) return;
  throw OptionError("operator " + std::to_string(index) +
                    " has no shape of a convolution, so that it cannot be merged");
}

/*! \brief Return the larger of a merged convolution's length and work. */
int64_t MergedTime(const std::vector<Fcm1Operator>& operators, const std::vector<int>& ops) {
  for (int op : ops) CheckConvolution(operators[op], op);
  const Fcm1Operator& first = operators[ops[0]];
  CheckedInt out_channels = 0, out_pixels = 1, in_pixels = 1, window = 1;
  for (int op : ops) out_channels = out_channels + operators[op].out_channels;
  for (size_t axis = 0; axis < 2; ++axis) {
    int64_t kernel = 0, padding = 0;
    for (int op : ops) {
      kernel = std::max(kernel, operators[op].kernel[axis]);
      padding = std::max(padding, operators[op].padding[axis]);
    }
    const CheckedInt room = CheckedInt(2) * padding + first.in_size[axis] - kernel;
    out_pixels = out_pixels * (Value(room) / first.stride[axis] + 1);
    in_pixels = in_pixels * first.in_size[axis];
    window = window * kernel;
  }
  window = window * (first.in_channels / first.groups);
  const CheckedInt outputs = out_channels * out_pixels;
  const int64_t flops = Value(CheckedInt(2) * outputs * window);
  const CheckedInt elements =
      CheckedInt(first.in_channels) * in_pixels + outputs + out_channels * window + out_channels;
  const int64_t bytes = Value(CheckedInt(4) * elements);
  const int64_t length = kLaunch + std::max(flops / kFlops, bytes / kBytes);
  const int64_t share = std::clamp(Value(outputs * kAll) / kFull, kLeast, kAll);
  return std::max(length, Value(CheckedInt(length) * share) / kAll);
}

}  // namespace

StageModel Fcm1(std::vector<Fcm1Operator> operators) {
  StageModel model;
  model.stage = kStage;
  model.group = kGroup;
  for (const Fcm1Operator& op : operators) {
    model.length.push_back(static_cast<double>(op.length));
    model.work.push_back(static_cast<double>(op.work));
  }
  model.merged = [operators = std::move(operators)](const std::vector<int>& ops) {
    const Fcm1Operator& op = operators[ops[0]];
    const int64_t time =
        ops.size() == 1 ? std::max(op.length, op.work) : MergedTime(operators, ops);
    return static_cast<double>(Value(CheckedInt(kStage) + time));
  };
  return model;
}

}  // namespace tvm_ios
