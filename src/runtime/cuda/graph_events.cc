// SPDX-License-Identifier: Apache-2.0
#include "runtime/cuda/graph_events.h"

#include <tvm/ffi/error.h>

namespace tvm_ios {
namespace cuda {

namespace {

constexpr double kMillisecondsPerSecond = 1e3;

}  // namespace

GraphEvents::GraphEvents(size_t count) {
  while (events_.size() < count) events_.push_back(MakeEvent(kEventDefault));
}

void GraphEvents::Record(Stream stream) {
  TVM_FFI_ICHECK_LT(recorded_, events_.size()) << "each record needs an event";
  Driver::Get().cuEventRecordWithFlags(events_[recorded_].get(), stream, kEventRecordExternal);
  ++recorded_;
}

std::vector<double> GraphEvents::Seconds() const {
  std::vector<double> seconds;
  for (size_t i = 1; i < recorded_; ++i) {
    float milliseconds = 0;
    Driver::Get().cuEventElapsedTime(&milliseconds, events_[0].get(), events_[i].get());
    seconds.push_back(milliseconds / kMillisecondsPerSecond);
  }
  return seconds;
}

}  // namespace cuda
}  // namespace tvm_ios
