// SPDX-License-Identifier: Apache-2.0
/*!
 * \file merges.h
 * \brief Enumerates the sets of remaining operators that may be replaced by one operator.
 */
#ifndef TVM_IOS_SEARCH_MERGES_H_
#define TVM_IOS_SEARCH_MERGES_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "graph/dag.h"
#include "search/dp.h"

namespace tvm_ios {

/*! \brief Return the operators of each class that may be merged. */
inline std::map<int64_t, std::vector<int>> MembersByClass(const std::vector<int64_t>& merge_class) {
  std::map<int64_t, std::vector<int>> classes;
  for (size_t op = 0; op < merge_class.size(); ++op) {
    if (merge_class[op] >= 0) classes[merge_class[op]].push_back(static_cast<int>(op));
  }
  return classes;
}

/*!
 * \brief An enumerator of the endings that may be replaced by one operator.
 *
 * These are the non-empty sets of sinks that share a merge class, where sinks are operators with no
 * successor among the remaining ones. In addition there are the given sets, in which one operator
 * may read another. Pruning does not apply: a replaced set is a single kernel.
 */
template <typename Bits>
class MergeEnumerator {
 public:
  /*! \brief Make an enumerator. The graph must outlive it. */
  MergeEnumerator(const DagBits<Bits>& graph, const SearchOptions& options)
      : graph_(graph), merge_class_(options.merge_class) {
    for (const std::vector<int>& ops : options.replacements) {
      replacements_.push_back(Bits::Of(graph.num_ops, ops));
    }
  }

  /*!
   * \brief Call visit(ops) for each set: class by class, a set after all of its subsets; then for
   * the given sets.
   */
  template <typename Visit>
  void ForEach(const Bits& remaining, Visit visit) const {
    ForEachMerge(remaining, visit);
    for (const Bits& ops : replacements_) {
      if (IsEnding(ops, remaining)) visit(ops);
    }
  }

 private:
  template <typename Visit>
  void ForEachMerge(const Bits& remaining, Visit visit) const {
    if (merge_class_.empty()) return;
    std::map<int64_t, std::vector<int>> sinks;
    for (int op : remaining) {
      if (merge_class_[op] >= 0 && graph_.successors[op].IsDisjointFrom(remaining)) {
        sinks[merge_class_[op]].push_back(op);
      }
    }
    for (const auto& [merge_class, members] : sinks) ForEachSubset(members, visit);
  }

  bool IsEnding(const Bits& ops, const Bits& remaining) const {
    if (!ops.IsSubsetOf(remaining)) return false;
    for (int op : ops) {
      if (!(graph_.successors[op] & remaining).IsSubsetOf(ops)) return false;
    }
    return true;
  }

  /*! \brief Count in binary, where bit i is member i, until the counter is zero again. */
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
  std::vector<Bits> replacements_;
};

/*!
 * \brief Return the subsets of some operators, at most 31, that can be sinks at the same time: no
 * member of them reads from another, not even through others.
 */
template <typename Bits>
std::vector<Bits> IndependentSubsets(const DagBits<Bits>& graph, const std::vector<int>& members) {
  std::vector<Bits> subsets;
  for (uint32_t subset = 1; subset < 1U << members.size(); ++subset) {
    Bits ops(graph.num_ops);
    for (size_t i = 0; i < members.size(); ++i) {
      if ((subset >> i & 1) != 0) ops.Set(members[i]);
    }
    const bool independent = std::all_of(ops.begin(), ops.end(), [&](int op) {
      return (graph.descendants[op] & ops).Count() == 1;  // itself
    });
    if (independent) subsets.push_back(ops);
  }
  return subsets;
}

/*!
 * \brief Return the sets of operators that can be replaced in any state.
 * \param max_members The largest class whose subsets are listed.
 * \param left_out The operators of larger ones are appended to it.
 */
template <typename Bits>
std::vector<Bits> AllMerges(const DagBits<Bits>& graph, const SearchOptions& options,
                            size_t max_members, std::vector<int>* left_out) {
  std::vector<Bits> merges;
  for (const auto& [number, members] : MembersByClass(options.merge_class)) {
    if (members.size() > max_members) {
      left_out->insert(left_out->end(), members.begin(), members.end());
    } else {
      const std::vector<Bits> subsets = IndependentSubsets(graph, members);
      merges.insert(merges.end(), subsets.begin(), subsets.end());
    }
  }
  for (const std::vector<int>& ops : options.replacements) {
    merges.push_back(Bits::Of(graph.num_ops, ops));
  }
  return merges;
}

}  // namespace tvm_ios
#endif  // TVM_IOS_SEARCH_MERGES_H_
