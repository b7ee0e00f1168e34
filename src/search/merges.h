// SPDX-License-Identifier: Apache-2.0
/*!
 * \file merges.h
 * \brief Enumerates the sets of remaining operators that may be merged into one operator.
 */
#ifndef TVM_IOS_SEARCH_MERGES_H_
#define TVM_IOS_SEARCH_MERGES_H_

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "graph/dag.h"

namespace tvm_ios {

/*!
 * \brief Enumerates the non-empty sets of sinks that share a merge class.
 *
 * Sinks are operators with no successor among the remaining ones, so such a set is an ending whose
 * groups are single operators. The pruning does not apply: merged, they are one kernel.
 */
template <typename Bits>
class MergeEnumerator {
 public:
  /*!
   * \param graph The graph; it must outlive the enumerator.
   * \param merge_class For each operator its class, negative if it is never merged. Empty: none is.
   */
  MergeEnumerator(const DagBits<Bits>& graph, std::vector<int64_t> merge_class)
      : graph_(graph), merge_class_(std::move(merge_class)) {}

  /*! \brief Calls visit(ops) for each set, class by class, a set after all of its subsets. */
  template <typename Visit>
  void ForEach(const Bits& remaining, Visit visit) const {
    if (merge_class_.empty()) return;
    std::map<int64_t, std::vector<int>> sinks;
    for (int op : remaining) {
      if (merge_class_[op] >= 0 && graph_.successors[op].IsDisjointFrom(remaining)) {
        sinks[merge_class_[op]].push_back(op);
      }
    }
    for (const auto& [merge_class, members] : sinks) ForEachSubset(members, visit);
  }

 private:
  /*! \brief Counts in binary, member i being bit i; stops when the counter is back at zero. */
  template <typename Visit>
  void ForEachSubset(const std::vector<int>& members, Visit visit) const {
    Bits subset(graph_.num_ops);
    while (true) {
      size_t bit = 0;
      for (; bit < members.size() && subset.Test(members[bit]); ++bit) subset.Reset(members[bit]);
      if (bit == members.size()) return;
      subset.Set(members[bit]);
      visit(static_cast<const Bits&>(subset));
    }
  }

  const DagBits<Bits>& graph_;
  const std::vector<int64_t> merge_class_;
};

}  // namespace tvm_ios
#endif  // TVM_IOS_SEARCH_MERGES_H_
