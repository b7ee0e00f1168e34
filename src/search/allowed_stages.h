// SPDX-License-Identifier: Apache-2.0
/*!
 * \file allowed_stages.h
 * \brief The few stages that a search is restricted to.
 */
#ifndef TVM_IOS_SEARCH_ALLOWED_STAGES_H_
#define TVM_IOS_SEARCH_ALLOWED_STAGES_H_

#include <cstdint>
#include <vector>

#include "graph/dag.h"

namespace tvm_ios {

/*! \brief Candidates by number, of which those are found that may run last. */
template <typename Bits>
class AllowedStages {
 public:
  void Clear() { stages_.clear(); }

  void Add(const DagBits<Bits>& graph, uint32_t candidate, const Bits& ops) {
    Bits after(graph.num_ops);
    for (int op : ops) after |= graph.successors[op];
    stages_.push_back({candidate, ops, after - ops});
  }

  /*! \brief Call visit(candidate) for each stage that is an ending of the remaining operators. */
  template <typename Visit>
  void ForEach(const Bits& remaining, Visit visit) const {
    for (const auto& [candidate, ops, after] : stages_) {
      if (ops.IsSubsetOf(remaining) && after.IsDisjointFrom(remaining)) visit(candidate);
    }
  }

 private:
  struct Stage {
    uint32_t candidate;
    Bits ops, after;  // the stage's operators, and those that read from them
  };
  std::vector<Stage> stages_;
};

}  // namespace tvm_ios
#endif  // TVM_IOS_SEARCH_ALLOWED_STAGES_H_
