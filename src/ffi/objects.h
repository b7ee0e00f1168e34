// SPDX-License-Identifier: Apache-2.0
/*!
 * \file objects.h
 * \brief The core's results as objects of TVM FFI.
 */
#ifndef TVM_IOS_FFI_OBJECTS_H_
#define TVM_IOS_FFI_OBJECTS_H_

#include <tvm/ffi/container/array.h>
#include <tvm/ffi/container/tuple.h>
#include <tvm/ffi/memory.h>
#include <tvm/ffi/object.h>

#include <memory>
#include <utility>

#include "graph/dag.h"
#include "runtime/cuda/stage_runner.h"
#include "runtime/stage_runner.h"
#include "search/best_first.h"
#include "search/dp.h"

namespace tvm_ios {

namespace ffi = ::tvm::ffi;

using Groups = ffi::Array<ffi::Array<int64_t>>;

/*! \brief A stage of a Schedule: its operators and its strategy. */
using StageTuple = ffi::Tuple<ffi::Array<int64_t>, int64_t>;

/*!
 * \brief A SearchResult: its stages, latency, states, transitions and evaluations; a lower bound;
 * whether it is proved to be optimal.
 */
using ResultTuple =
    ffi::Tuple<ffi::Array<StageTuple>, double, int64_t, int64_t, int64_t, double, bool>;

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

/*! \brief A BestFirst, kept for later calls. */
class BestFirstObj : public ffi::Object {
 public:
  explicit BestFirstObj(std::unique_ptr<BestFirst> search) : search(std::move(search)) {}

  const std::unique_ptr<BestFirst> search;
  static constexpr bool _type_mutable = true;
  TVM_FFI_DECLARE_OBJECT_INFO_FINAL("tvm_ios.BestFirst", BestFirstObj, ffi::Object);
};

class BestFirstRef : public ffi::ObjectRef {
 public:
  explicit BestFirstRef(std::unique_ptr<BestFirst> search)
      : ffi::ObjectRef(ffi::make_object<BestFirstObj>(std::move(search))) {}
  TVM_FFI_DEFINE_OBJECT_REF_METHODS_NOTNULLABLE(BestFirstRef, ffi::ObjectRef, BestFirstObj);
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

/*! \brief A cuda::StageRunner. */
class CudaStageRunnerObj : public ffi::Object {
 public:
  explicit CudaStageRunnerObj(int64_t device_id) : runner(device_id) {}

  cuda::StageRunner runner;
  static constexpr bool _type_mutable = true;
  TVM_FFI_DECLARE_OBJECT_INFO_FINAL("tvm_ios.runtime.cuda.StageRunner", CudaStageRunnerObj,
                                    ffi::Object);
};

class CudaStageRunnerRef : public ffi::ObjectRef {
 public:
  TVM_FFI_DEFINE_OBJECT_REF_METHODS_NULLABLE(CudaStageRunnerRef, ffi::ObjectRef,
                                             CudaStageRunnerObj);
};

}  // namespace tvm_ios
#endif  // TVM_IOS_FFI_OBJECTS_H_
