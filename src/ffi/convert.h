// SPDX-License-Identifier: Apache-2.0
/*!
 * \file convert.h
 * \brief Conversions between the types of the core and those of TVM FFI.
 */
#ifndef TVM_IOS_FFI_CONVERT_H_
#define TVM_IOS_FFI_CONVERT_H_

#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/error.h>
#include <tvm/ffi/extra/c_env_api.h>

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "ffi/objects.h"
#include "runtime/arguments.h"
#include "runtime/host_tensor.h"

namespace tvm_ios {

inline std::vector<int64_t> Int64Vector(const ffi::TensorView& tensor, const char* name) {
  const int64_t* data = HostData<int64_t>(tensor, 1, kInt64, name);
  return std::vector<int64_t>(data, data + tensor.size(0));
}

/*!
 * \brief Convert an operator to the core's type; a number out of range becomes one that no graph
 * has.
 */
inline int ToOperator(int64_t op) {
  return static_cast<int>(std::clamp<int64_t>(op, -1, std::numeric_limits<int>::max()));
}

inline std::vector<int> Operators(const ffi::TensorView& tensor) {
  std::vector<int> ops;
  for (int64_t op : Int64Vector(tensor, "ops")) ops.push_back(ToOperator(op));
  return ops;
}

inline std::vector<std::vector<int>> OperatorSets(const Groups& groups) {
  std::vector<std::vector<int>> sets;
  for (const ffi::Array<int64_t>& group : groups) {
    sets.emplace_back();
    for (int64_t op : group) sets.back().push_back(ToOperator(op));
  }
  return sets;
}

inline ffi::Array<int64_t> ToFfi(const std::vector<int>& ops) {
  ffi::Array<int64_t> result;
  for (int op : ops) result.push_back(op);
  return result;
}

inline Groups ToFfi(const std::vector<std::vector<int>>& groups) {
  Groups result;
  for (const std::vector<int>& group : groups) result.push_back(ToFfi(group));
  return result;
}

inline ffi::Array<StageTuple> ToFfi(const Schedule& schedule) {
  ffi::Array<StageTuple> stages;
  for (const auto& [ops, strategy] : schedule) {
    stages.push_back(StageTuple(ToFfi(ops), static_cast<int64_t>(strategy)));
  }
  return stages;
}

inline ResultTuple ToFfi(const SearchResult& result, double lower_bound, bool proved) {
  return ResultTuple(ToFfi(result.stages), result.latency, result.states, result.transitions,
                     result.evaluations, lower_bound, proved);
}

inline ffi::Tensor OpsTensor(const CandidateBatch& batch) {
  return MakeTensor(
      batch.ops, {static_cast<int64_t>(batch.size()), static_cast<int64_t>(batch.words)}, kUInt64);
}

/*! \brief Return the operators and the strategies of candidates. */
inline ffi::Array<ffi::Tensor> ToFfi(const CandidateBatch& batch) {
  const int64_t size = static_cast<int64_t>(batch.size());
  return {OpsTensor(batch), MakeTensor(batch.strategies, {size}, kInt32)};
}

inline std::vector<double> Doubles(const ffi::TensorView& tensor, const char* name) {
  const double* data = HostData<double>(tensor, 1, kFloat64, name);
  return std::vector<double>(data, data + tensor.size(0));
}

/*! \brief Return a number as a limit; a negative one becomes 0. */
inline size_t ToLimit(int64_t value) { return static_cast<size_t>(std::max<int64_t>(value, 0)); }

inline Pruning ToPruning(int64_t max_group_size, int64_t max_num_groups) {
  return {ToLimit(max_group_size), ToLimit(max_num_groups)};
}

/*! \brief Let the user interrupt a long call. */
inline void CheckSignals() {
  if (TVMFFIEnvCheckSignals() != 0) throw ffi::EnvErrorAlreadySet();
}

}  // namespace tvm_ios
#endif  // TVM_IOS_FFI_CONVERT_H_
