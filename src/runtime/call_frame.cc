// SPDX-License-Identifier: Apache-2.0
#include "runtime/call_frame.h"

#include <cstring>
#include <utility>

namespace tvm_ios {

namespace ffi = ::tvm::ffi;

namespace {

/*! \brief The address of a tensor without elements; code may check that it is not null. */
alignas(64) char nothing[64];

}  // namespace

CallFrame::CallFrame(const CallPlan& plan)
    : plan_(plan),
      inputs_(PlacesOf(plan.inputs)),
      outputs_(PlacesOf(plan.outputs)),
      workspaces_(PlacesOf(plan.workspaces)) {
  for (size_t i = 0; i < workspaces_.size(); ++i) {
    workspaces_[i].memory = AllocateAligned(plan.workspaces[i].bytes());
    workspaces_[i].tensor.data = workspaces_[i].memory.get();
  }
  for (const DriverParameter& parameter : plan.parameters) {
    if (parameter.kind == DriverParameter::Kind::kNumber) {
      arguments_.emplace_back(static_cast<int64_t>(parameter.number));
      continue;
    }
    std::vector<Place>& places = parameter.kind == DriverParameter::Kind::kInput    ? inputs_
                                 : parameter.kind == DriverParameter::Kind::kOutput ? outputs_
                                                                                    : workspaces_;
    arguments_.emplace_back(&places[parameter.number].tensor);
  }
}

std::vector<CallFrame::Place> CallFrame::PlacesOf(const std::vector<TensorSpec>& specs) {
  std::vector<Place> places;
  for (const TensorSpec& spec : specs) places.push_back({spec.At(nothing), {}, nullptr, false});
  return places;
}

void CallFrame::SetInput(size_t number, const DLTensor& given) {
  const bool usable = IsAligned(DataOf(given)) && ffi::IsContiguous(given);
  Set(&inputs_[number], given, plan_.inputs[number].bytes(), usable);
}

void CallFrame::SetOutput(size_t number, const DLTensor& given) {
  Set(&outputs_[number], given, plan_.outputs[number].bytes(), IsAligned(DataOf(given)));
}

void CallFrame::Set(Place* place, const DLTensor& given, size_t bytes, bool usable) {
  place->copied = !usable && bytes > 0;
  if (bytes == 0) return;
  if (usable) {
    place->tensor.data = DataOf(given);
    return;
  }
  if (place->memory == nullptr) place->memory = AllocateAligned(bytes);
  place->tensor.data = place->memory.get();
  place->given = given;
}

void CallFrame::Run() {
  for (Place& place : inputs_) {
    if (place.copied) CopyElements(place.given, place.memory.get());
  }
  ffi::Any nothing_returned;
  plan_.driver.CallPacked(arguments_.data(), static_cast<int32_t>(arguments_.size()),
                          &nothing_returned);
  for (size_t i = 0; i < outputs_.size(); ++i) {
    const Place& place = outputs_[i];
    if (place.copied) {
      std::memcpy(DataOf(place.given), place.memory.get(), plan_.outputs[i].bytes());
    }
  }
}

FramePool::~FramePool() {
  for (std::atomic<CallFrame*>& frame : frames_) delete frame.load();
}

std::unique_ptr<CallFrame> FramePool::Take() {
  for (std::atomic<CallFrame*>& frame : frames_) {
    if (frame.load(std::memory_order_relaxed) == nullptr) continue;
    if (CallFrame* taken = frame.exchange(nullptr)) return std::unique_ptr<CallFrame>(taken);
  }
  return nullptr;
}

void FramePool::Give(std::unique_ptr<CallFrame> frame) {
  for (std::atomic<CallFrame*>& place : frames_) {
    CallFrame* empty = nullptr;
    if (place.compare_exchange_strong(empty, frame.get())) {
      frame.release();
      return;
    }
  }
}

}  // namespace tvm_ios
