// SPDX-License-Identifier: Apache-2.0
/*!
 * \file best_first.cc
 * \brief The best-first search as a TVM FFI object and global functions.
 */
#include "search/best_first.h"

#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/reflection/registry.h>

#include <utility>
#include <vector>

#include "ffi/convert.h"
#include "ffi/functions.h"
#include "ffi/objects.h"
#include "runtime/arguments.h"
#include "runtime/host_tensor.h"

namespace tvm_ios {
namespace {

BestFirstRef Make(DagRef dag, ffi::TensorView merge_class, Groups replacements,
                  ffi::TensorView floors, int64_t max_group_size, int64_t max_num_groups,
                  int64_t max_transitions, int64_t max_candidates, double seconds) {
  return BestFirstRef(MakeBestFirst(
      dag->dag,
      {ToPruning(max_group_size, max_num_groups), Int64Vector(merge_class, "merge_class"),
       OperatorSets(replacements)},
      Doubles(floors, "floors"), {ToLimit(max_transitions), ToLimit(max_candidates), seconds}));
}

/*! \brief The schedule from which a search begins: operators and strategies of its stages. */
Schedule Known(const Groups& groups, const ffi::TensorView& strategies) {
  const int32_t* strategy = HostData<int32_t>(strategies, 1, kInt32, "strategies");
  Schedule stages;
  TVM_IOS_REQUIRE(strategies.size(0) == static_cast<int64_t>(groups.size()), ValueError)
      << "there are " << strategies.size(0) << " strategies for " << groups.size() << " stages";
  for (std::vector<int>& ops : OperatorSets(groups)) {
    TVM_IOS_REQUIRE(*strategy == 0 || *strategy == 1, ValueError) << *strategy << " is no strategy";
    stages.push_back({std::move(ops), static_cast<Strategy>(*strategy++)});
  }
  return stages;
}

void Begin(BestFirstRef search, ffi::TensorView seconds, Groups known, ffi::TensorView strategies,
           bool priced_only) {
  search->search->Begin(Doubles(seconds, "the latencies"), Known(known, strategies), priced_only);
}

ffi::Array<bool> Advance(ffi::Array<BestFirstRef> searches, int64_t num_threads) {
  std::vector<BestFirst*> all;
  for (const BestFirstRef& search : searches) all.push_back(search->search.get());
  ffi::Array<bool> ended;
  for (bool value : AdvanceAll(all, ToLimit(num_threads), CheckSignals)) ended.push_back(value);
  return ended;
}

void Price(BestFirstRef search, ffi::TensorView seconds) {
  search->search->Price(Doubles(seconds, "the latencies"));
}

ffi::Array<ffi::Tensor> CandidatesFrom(BestFirstRef search, int64_t begin) {
  return ToFfi(search->search->Candidates(ToLimit(begin)));
}

ResultTuple Result(BestFirstRef search) {
  const BoundedResult found = search->search->Result();
  return ToFfi(found.result, found.lower_bound, found.proved);
}

TVM_FFI_STATIC_INIT_BLOCK() {
  namespace refl = ::tvm::ffi::reflection;
  refl::ObjectDef<BestFirstObj>();
  Functions()
      .def("tvm_ios.MakeBestFirst", Make,
           "A search for a cheap schedule within a budget, and for how far it is from the cheapest "
           "one at most.")
      .def("tvm_ios.BestFirstBegin", Begin,
           "Begin such a search with the prices of the first candidates, float64 [n].")
      .def("tvm_ios.BestFirstAdvance", Advance,
           "Advance searches on several threads until they end or need prices; which have ended.")
      .def("tvm_ios.BestFirstPrice", Price, "Set the prices of the other candidates, float64 [n].")
      .def("tvm_ios.BestFirstCandidates", CandidatesFrom,
           "The candidates from a number on: operators, uint64 [n, words], and strategies, int32 "
           "[n].")
      .def("tvm_ios.BestFirstResult", Result, "What a search has found that has ended.");
}

}  // namespace
}  // namespace tvm_ios
