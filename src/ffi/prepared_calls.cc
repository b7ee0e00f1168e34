// SPDX-License-Identifier: Apache-2.0
/*!
 * \file prepared_calls.cc
 * \brief Prepared and bound calls as TVM FFI objects.
 */
#include <tvm/ffi/container/array.h>
#include <tvm/ffi/container/shape.h>
#include <tvm/ffi/container/tuple.h>
#include <tvm/ffi/function.h>
#include <tvm/ffi/memory.h>
#include <tvm/ffi/object.h>
#include <tvm/ffi/reflection/registry.h>
#include <tvm/ffi/string.h>

#include <string>
#include <utility>
#include <vector>

#include "ffi/functions.h"
#include "runtime/arguments.h"
#include "runtime/prepared_call.h"

namespace tvm_ios {
namespace {

namespace refl = ::tvm::ffi::reflection;

/*! \brief A PreparedCall. */
class PreparedCallObj : public ffi::Object {
 public:
  explicit PreparedCallObj(CallPlan plan) : call(std::move(plan)) {}

  const PreparedCall call;
  static constexpr bool _type_mutable = true;
  TVM_FFI_DECLARE_OBJECT_INFO_FINAL("tvm_ios.runtime.PreparedCall", PreparedCallObj, ffi::Object);
};

class PreparedCallRef : public ffi::ObjectRef {
 public:
  explicit PreparedCallRef(CallPlan plan)
      : ffi::ObjectRef(ffi::make_object<PreparedCallObj>(std::move(plan))) {}
  TVM_FFI_DEFINE_OBJECT_REF_METHODS_NOTNULLABLE(PreparedCallRef, ffi::ObjectRef, PreparedCallObj);
};

/*! \brief A BoundCall, and the call whose plan it uses. */
class BoundCallObj : public ffi::Object {
 public:
  BoundCallObj(PreparedCallRef prepared, ffi::PackedArgs tensors)
      : prepared(std::move(prepared)), call(this->prepared->call.plan(), tensors) {}

  const PreparedCallRef prepared;
  BoundCall call;
  static constexpr bool _type_mutable = true;
  TVM_FFI_DECLARE_OBJECT_INFO_FINAL("tvm_ios.runtime.BoundCall", BoundCallObj, ffi::Object);
};

class BoundCallRef : public ffi::ObjectRef {
 public:
  BoundCallRef(PreparedCallRef prepared, ffi::PackedArgs tensors)
      : ffi::ObjectRef(ffi::make_object<BoundCallObj>(std::move(prepared), tensors)) {}
  TVM_FFI_DEFINE_OBJECT_REF_METHODS_NOTNULLABLE(BoundCallRef, ffi::ObjectRef, BoundCallObj);
};

/*! \brief Tensors: how messages name them, their types and shapes. */
using Specs = ffi::Array<ffi::Tuple<ffi::String, DLDataType, ffi::Shape>>;

/*! \brief Parameters of a driver: input or output, and its number; or workspace, and its bytes. */
using Parameters = ffi::Array<ffi::Tuple<ffi::String, int64_t>>;

std::vector<TensorSpec> ToSpecs(const Specs& specs) {
  std::vector<TensorSpec> result;
  for (const auto& spec : specs) {
    const ffi::Shape shape = spec.get<2>();
    result.emplace_back(std::string(spec.get<0>()), spec.get<1>(), shape);
  }
  return result;
}

PreparedCallRef NewPreparedCall(ffi::Function driver, Specs inputs, Specs outputs,
                                Parameters parameters) {
  constexpr DLDataType kByte{kDLUInt, 8, 1};
  CallPlan plan{std::move(driver), ToSpecs(inputs), ToSpecs(outputs), {}, {}};
  for (const auto& parameter : parameters) {
    const std::string kind = parameter.get<0>();
    const int64_t number = parameter.get<1>();
    if (kind == "workspace") {
      plan.parameters.push_back({DriverParameter::Kind::kWorkspace, plan.workspaces.size()});
      plan.workspaces.emplace_back("a workspace", kByte, ffi::ShapeView(&number, 1));
      continue;
    }
    if (kind == "number") {
      TVM_IOS_REQUIRE(number >= 0, ValueError) << "a size is not negative";
      plan.parameters.push_back({DriverParameter::Kind::kNumber, static_cast<size_t>(number)});
      continue;
    }
    TVM_IOS_REQUIRE(kind == "input" || kind == "output", ValueError)
        << "a parameter of a driver cannot be " << kind;
    CheckRange(number, 0, plan.inputs.size() + plan.outputs.size(), "the number of a tensor");
    plan.parameters.push_back(
        {kind == "input" ? DriverParameter::Kind::kInput : DriverParameter::Kind::kOutput,
         static_cast<size_t>(number)});
  }
  return PreparedCallRef(std::move(plan));
}

/*! \brief Return the call that is the first argument. */
PreparedCallRef CallOf(const ffi::PackedArgs& args) {
  const auto call = args.size() > 0 ? args[0].try_cast<PreparedCallRef>() : std::nullopt;
  TVM_IOS_REQUIRE(call.has_value() && call->defined(), TypeError)
      << "the first argument must be a prepared call";
  return *call;
}

void RunPrepared(ffi::PackedArgs args, ffi::Any* result) {
  *result = CallOf(args)->call.Run(args.Slice(1));
}

void RunPreparedInto(ffi::PackedArgs args, ffi::Any* /*result*/) {
  CallOf(args)->call.RunInto(args.Slice(1));
}

void BindPrepared(ffi::PackedArgs args, ffi::Any* result) {
  *result = BoundCallRef(CallOf(args), args.Slice(1));
}

void RunBound(BoundCallRef bound) { bound->call.Run(); }

TVM_FFI_STATIC_INIT_BLOCK() {
  refl::ObjectDef<PreparedCallObj>();
  refl::ObjectDef<BoundCallObj>();

  Functions()
      .def("tvm_ios.runtime.NewPreparedCall", NewPreparedCall,
           "A driver with its inputs, its outputs, and what its parameters are.")
      .def_packed("tvm_ios.runtime.RunPrepared", RunPrepared,
                  "Run a prepared call on inputs; its output, or an array of them.")
      .def_packed("tvm_ios.runtime.RunPreparedInto", RunPreparedInto,
                  "Run a prepared call on inputs, into outputs.")
      .def_packed("tvm_ios.runtime.BindPrepared", BindPrepared,
                  "A prepared call with inputs and outputs, which it runs on from now on.")
      .def("tvm_ios.runtime.RunBound", RunBound, "Run a bound call.");
}

}  // namespace
}  // namespace tvm_ios
