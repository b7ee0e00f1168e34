// SPDX-License-Identifier: Apache-2.0
#include "runtime/prepared_call.h"

#include <tvm/ffi/container/array.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "runtime/arguments.h"

namespace tvm_ios {

namespace ffi = ::tvm::ffi;

namespace {

/*! \brief Return the plan if each output is one parameter, and the tensors are there. */
CallPlan Checked(CallPlan plan) {
  std::vector<int> written(plan.outputs.size());
  for (const DriverParameter& parameter : plan.parameters) {
    if (parameter.kind == DriverParameter::Kind::kNumber) continue;
    const bool input = parameter.kind == DriverParameter::Kind::kInput;
    const bool output = parameter.kind == DriverParameter::Kind::kOutput;
    const auto& specs = input ? plan.inputs : output ? plan.outputs : plan.workspaces;
    TVM_IOS_REQUIRE(parameter.number < specs.size(), ValueError)
        << "there is no tensor " << parameter.number << " of a parameter's kind";
    if (output) ++written[parameter.number];
  }
  TVM_IOS_REQUIRE(std::all_of(written.begin(), written.end(), [](int n) { return n == 1; }),
                  ValueError)
      << "each output must be one parameter of the driver";
  return plan;
}

void CheckCount(const std::vector<TensorSpec>& specs, int64_t count, const char* verb) {
  if (count == static_cast<int64_t>(specs.size())) return;
  std::string wanted;
  for (const TensorSpec& spec : specs) wanted += (wanted.empty() ? "" : ", ") + spec.name();
  TVM_FFI_THROW(ValueError) << "The model " << verb << " " << wanted << "; got " << count
                            << " arrays.";
}

/*! \brief Check the inputs and the outputs among arguments, and let a frame use them. */
void SetAll(const CallPlan& plan, const ffi::PackedArgs& tensors, CallFrame* frame) {
  const size_t inputs = plan.inputs.size();
  const int64_t outputs = static_cast<int64_t>(tensors.size()) - static_cast<int64_t>(inputs);
  CheckCount(plan.outputs, outputs, "returns");
  std::vector<Extent> taken;
  for (size_t i = 0; i < inputs; ++i) {
    const DLTensor& input = plan.inputs[i].Check(tensors[i], "takes");
    frame->SetInput(i, input);
    taken.push_back(ExtentOf(input));
  }
  for (size_t i = 0; i < plan.outputs.size(); ++i) {
    const TensorSpec& spec = plan.outputs[i];
    const DLTensor& output = spec.Check(tensors[inputs + i], "returns");
    TVM_IOS_REQUIRE(ffi::IsContiguous(output), ValueError)
        << "The array for " << spec.name() << " is not contiguous; give one that is.";
    const Extent extent = ExtentOf(output);
    for (const Extent& other : taken) {
      TVM_IOS_REQUIRE(!extent.Overlaps(other), ValueError)
          << "The array for " << spec.name()
          << " overlaps an input or another output; give one that does not.";
    }
    taken.push_back(extent);
    frame->SetOutput(i, output);
  }
}

}  // namespace

/*! \brief A frame for one run, which goes back to the pool. */
class PreparedCall::Lease {
 public:
  explicit Lease(const PreparedCall& call) : pool_(call.frames_), frame_(pool_.Take()) {
    if (frame_ == nullptr) frame_ = std::make_unique<CallFrame>(call.plan_);
  }
  ~Lease() { pool_.Give(std::move(frame_)); }
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;

  CallFrame* get() const { return frame_.get(); }

 private:
  FramePool& pool_;
  std::unique_ptr<CallFrame> frame_;
};

PreparedCall::PreparedCall(CallPlan plan) : plan_(Checked(std::move(plan))) {}

ffi::Any PreparedCall::Run(ffi::PackedArgs inputs) const {
  CheckCount(plan_.inputs, inputs.size(), "takes");
  const Lease frame(*this);
  for (size_t i = 0; i < plan_.inputs.size(); ++i) {
    frame.get()->SetInput(i, plan_.inputs[i].Check(inputs[i], "takes"));
  }
  std::vector<ffi::Tensor> outputs;
  outputs.reserve(plan_.outputs.size());
  for (size_t i = 0; i < plan_.outputs.size(); ++i) {
    outputs.push_back(plan_.outputs[i].Allocate());
    frame.get()->SetOutput(i, *outputs[i].GetDLTensorPtr());
  }
  frame.get()->Run();
  if (outputs.size() == 1) return std::move(outputs.front());
  return ffi::Array<ffi::Tensor>(outputs.begin(), outputs.end());
}

void PreparedCall::RunInto(ffi::PackedArgs tensors) const {
  const Lease frame(*this);
  SetAll(plan_, tensors, frame.get());
  frame.get()->Run();
}

BoundCall::BoundCall(const CallPlan& plan, ffi::PackedArgs tensors) : frame_(plan) {
  SetAll(plan, tensors, &frame_);
  for (int32_t i = 0; i < tensors.size(); ++i) tensors_.push_back(tensors[i].cast<ffi::Tensor>());
}

void BoundCall::Run() {
  TVM_IOS_REQUIRE(!running_.exchange(true), RuntimeError)
      << "Another thread runs this bound call; bind one for each thread.";
  const std::unique_ptr<std::atomic<bool>, void (*)(std::atomic<bool>*)> ended(
      &running_, [](std::atomic<bool>* running) { running->store(false); });
  frame_.Run();
}

}  // namespace tvm_ios
