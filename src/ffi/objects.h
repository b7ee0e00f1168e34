// SPDX-License-Identifier: Apache-2.0
/*!
 * \file objects.h
 * \brief The core's results as objects of TVM FFI.
 */
#ifndef TVM_IOS_FFI_OBJECTS_H_
#define TVM_IOS_FFI_OBJECTS_H_

#include <tvm/ffi/container/array.h>
#include <tvm/ffi/memory.h>
#include <tvm/ffi/object.h>
#include <tvm/ffi/string.h>

#include <memory>
#include <utility>

#include "graph/dag.h"
#include "runtime/stage_runner.h"
#include "search/bounded.h"
#include "search/dp.h"

namespace tvm_ios {

namespace ffi = ::tvm::ffi;

using Groups = ffi::Array<ffi::Array<int64_t>>;

/*! \brief A graph, kept for later calls. */
class DagObj : public ffi::Object {
 public:
  explicit DagObj(Dag dag) : dag(std::move(dag)), num_ops(this->dag.num_ops()) {}

  const Dag dag;
  int64_t num_ops;
  TVM_FFI_DECLARE_OBJECT_INFO_FINAL("tvm_ios.Dag", DagObj, ffi::Object);
};

class DagRef : public ffi::ObjectRef {
 public:
  explicit DagRef(Dag dag) : ffi::ObjectRef(ffi::make_object<DagObj>(std::move(dag))) {}
  TVM_FFI_DEFINE_OBJECT_REF_METHODS_NOTNULLABLE(DagRef, ffi::ObjectRef, DagObj);
};

/*! \brief A Stage. */
class StageObj : public ffi::Object {
 public:
  StageObj() = default;
  StageObj(Groups groups, ffi::String strategy, double latency)
      : groups(std::move(groups)), strategy(std::move(strategy)), latency(latency) {}

  Groups groups;
  ffi::String strategy;
  double latency{0};
  static constexpr TVMFFISEqHashKind _type_s_eq_hash_kind = kTVMFFISEqHashKindTreeNode;
  TVM_FFI_DECLARE_OBJECT_INFO_FINAL("tvm_ios.Stage", StageObj, ffi::Object);
};

class StageRef : public ffi::ObjectRef {
 public:
  StageRef(Groups groups, ffi::String strategy, double latency)
      : ffi::ObjectRef(
            ffi::make_object<StageObj>(std::move(groups), std::move(strategy), latency)) {}
  TVM_FFI_DEFINE_OBJECT_REF_METHODS_NOTNULLABLE(StageRef, ffi::ObjectRef, StageObj);
};

/*! \brief A SearchResult. */
class SearchResultObj : public ffi::Object {
 public:
  SearchResultObj() = default;
  SearchResultObj(ffi::Array<StageRef> stages, const SearchResult& result)
      : stages(std::move(stages)),
        latency(result.latency),
        states(result.states),
        transitions(result.transitions),
        evaluations(result.evaluations),
        lower_bound(result.latency),
        proved(true) {}

  ffi::Array<StageRef> stages;
  double latency{0};
  int64_t states{0};
  int64_t transitions{0};
  int64_t evaluations{0};
  double lower_bound{0};
  bool proved{false};
  static constexpr TVMFFISEqHashKind _type_s_eq_hash_kind = kTVMFFISEqHashKindTreeNode;
  TVM_FFI_DECLARE_OBJECT_INFO_FINAL("tvm_ios.SearchResult", SearchResultObj, ffi::Object);
};

class SearchResultRef : public ffi::ObjectRef {
 public:
  SearchResultRef(ffi::Array<StageRef> stages, const SearchResult& result)
      : ffi::ObjectRef(ffi::make_object<SearchResultObj>(std::move(stages), result)) {}
  SearchResultRef(ffi::Array<StageRef> stages, const BoundedResult& bounded)
      : SearchResultRef(std::move(stages), bounded.result) {
    SearchResultObj* result = static_cast<SearchResultObj*>(data_.get());
    result->lower_bound = bounded.lower_bound;
    result->proved = bounded.proved;
  }
  TVM_FFI_DEFINE_OBJECT_REF_METHODS_NOTNULLABLE(SearchResultRef, ffi::ObjectRef, SearchResultObj);
};

/*! \brief A ScheduleSpace, kept for later calls. */
class ScheduleSpaceObj : public ffi::Object {
 public:
  explicit ScheduleSpaceObj(std::unique_ptr<const ScheduleSpace> space) : space(std::move(space)) {}

  const std::unique_ptr<const ScheduleSpace> space;
  TVM_FFI_DECLARE_OBJECT_INFO_FINAL("tvm_ios.ScheduleSpace", ScheduleSpaceObj, ffi::Object);
};

class ScheduleSpaceRef : public ffi::ObjectRef {
 public:
  explicit ScheduleSpaceRef(std::unique_ptr<const ScheduleSpace> space)
      : ffi::ObjectRef(ffi::make_object<ScheduleSpaceObj>(std::move(space))) {}
  TVM_FFI_DEFINE_OBJECT_REF_METHODS_NOTNULLABLE(ScheduleSpaceRef, ffi::ObjectRef, ScheduleSpaceObj);
};

/*! \brief A StageRunner. */
class StageRunnerObj : public ffi::Object {
 public:
  StageRunner runner;
  static constexpr bool _type_mutable = true;
  TVM_FFI_DECLARE_OBJECT_INFO_FINAL("tvm_ios.runtime.StageRunner", StageRunnerObj, ffi::Object);
};

class StageRunnerRef : public ffi::ObjectRef {
 public:
  TVM_FFI_DEFINE_OBJECT_REF_METHODS_NULLABLE(StageRunnerRef, ffi::ObjectRef, StageRunnerObj);
};

}  // namespace tvm_ios
#endif  // TVM_IOS_FFI_OBJECTS_H_
