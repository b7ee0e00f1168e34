// SPDX-License-Identifier: Apache-2.0
#include "search/baselines.h"

#include <algorithm>
#include <set>
#include <vector>

#include "support/error.h"

namespace tvm_ios {

Schedule SequentialSchedule(const Dag& dag) {
  Schedule stages;
  for (int op : dag.topological_order()) {
    stages.push_back({{op}});
  }
  return stages;
}

Schedule GreedySchedule(const Dag& dag, int64_t max_num_groups) {
  if (max_num_groups < 1) throw OptionError("max_num_groups must be at least 1");
  std::vector<size_t> waiting(dag.num_ops());
  std::set<int> ready;
  for (int op = 0; op < dag.num_ops(); ++op) {
    waiting[op] = dag.predecessors(op).size();
    if (waiting[op] == 0) ready.insert(op);
  }
  Schedule stages;
  while (!ready.empty()) {
    const auto width = std::min<int64_t>(max_num_groups, static_cast<int64_t>(ready.size()));
    const auto end = std::next(ready.begin(), width);
    stages.push_back({{ready.begin(), end}});
    ready.erase(ready.begin(), end);
    for (int op : stages.back().ops) {
      for (int successor : dag.successors(op)) {
        if (--waiting[successor] == 0) ready.insert(successor);
      }
    }
  }
  return stages;
}

}  // namespace tvm_ios
