// SPDX-License-Identifier: Apache-2.0
/*!
 * \file dispatch.h
 * \brief Helpers that the searches share: checks, and the width of their sets.
 */
#ifndef TVM_IOS_SEARCH_DISPATCH_H_
#define TVM_IOS_SEARCH_DISPATCH_H_

#include <string>
#include <vector>

#include "graph/dag.h"
#include "search/dp.h"
#include "search/schedule.h"
#include "support/bitset.h"
#include "support/error.h"
#include "support/memory.h"

namespace tvm_ios {

/*! \brief Call run with an empty set of the narrowest type that holds num_ops operators. */
template <typename Run>
auto DispatchWidth(int num_ops, Run run) {
  // One set per operator takes 100 MB for this many operators.
  constexpr int kMaxOps = 1 << 14;
  if (num_ops > kMaxOps) {
    throw OptionError(std::to_string(num_ops) + " operators are too many to search at a time; " +
                      "choose a max_block_size of at most " + std::to_string(kMaxOps));
  }
  if (num_ops <= 64) return run(FixedBitset<1>(num_ops));
  if (num_ops <= 128) return run(FixedBitset<2>(num_ops));
  if (num_ops <= 256) return run(FixedBitset<4>(num_ops));
  return run(DynamicBitset(num_ops));
}

/*! \brief Return the error of a search that takes too much memory. */
inline OptionError TooMuchMemory(int num_ops, const MemoryBudget& budget) {
  return OptionError("the search of " + std::to_string(num_ops) + " operators takes more than " +
                     BytesText(budget.bytes()) +
                     " of memory, a quarter of what is free; choose a smaller max_block_size, "
                     "max_group_size or max_num_groups");
}

inline void CheckPruning(const Pruning& pruning) {
  if (pruning.max_group_size < 1) throw OptionError("max_group_size must be at least 1");
  if (pruning.max_num_groups < 1) throw OptionError("max_num_groups must be at least 1");
}

inline void CheckOptions(const Dag& dag, const SearchOptions& options) {
  CheckPruning(options.pruning);
  const size_t num_classes = options.merge_class.size();
  if (num_classes != 0 && num_classes != static_cast<size_t>(dag.num_ops())) {
    throw OptionError("merge_class has " + std::to_string(num_classes) + " entries for " +
                      std::to_string(dag.num_ops()) + " operators");
  }
  for (const std::vector<int>& ops : options.replacements) {
    if (ops.empty()) throw OptionError("a replacement has no operators");
    for (int op : ops) {
      if (op >= 0 && op < dag.num_ops()) continue;
      throw OptionError("a replacement has operator " + std::to_string(op) +
                        ", which is not in the graph");
    }
  }
}

/*! \throw GraphError unless each operator occurs once and not before its predecessors. */
inline void CheckKnown(const Dag& dag, const Schedule& known) {
  if (known.empty()) return;
  std::vector<size_t> stage_of(dag.num_ops(), SIZE_MAX);
  size_t count = 0;
  for (size_t i = 0; i < known.size(); ++i) {
    if (known[i].ops.empty()) throw GraphError("a stage of the known schedule has no operators");
    for (int op : known[i].ops) {
      if (op < 0 || op >= dag.num_ops() || stage_of[op] != SIZE_MAX) {
        throw GraphError("the known schedule must have each operator of the graph once");
      }
      stage_of[op] = i;
      ++count;
    }
  }
  if (count != static_cast<size_t>(dag.num_ops())) {
    throw GraphError("the known schedule must have each operator of the graph once");
  }
  for (int op = 0; op < dag.num_ops(); ++op) {
    for (int successor : dag.successors(op)) {
      if (stage_of[successor] >= stage_of[op]) continue;
      throw GraphError("the known schedule has operator " + std::to_string(successor) +
                       " before its predecessor " + std::to_string(op));
    }
  }
}

}  // namespace tvm_ios
#endif  // TVM_IOS_SEARCH_DISPATCH_H_
