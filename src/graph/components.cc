// SPDX-License-Identifier: Apache-2.0
#include "graph/components.h"

#include <algorithm>
#include <string>
#include <unordered_map>

#include "support/error.h"

namespace tvm_ios {
namespace {

/*! \brief Disjoint sets over 0 .. n - 1, each represented by its smallest member. */
class DisjointSets {
 public:
  explicit DisjointSets(size_t n) : parent_(n) {
    for (size_t i = 0; i < n; ++i) parent_[i] = i;
  }
  size_t Find(size_t i) {
    while (parent_[i] != i) i = parent_[i] = parent_[parent_[i]];
    return i;
  }
  void Join(size_t i, size_t j) {
    const auto [low, high] = std::minmax({Find(i), Find(j)});
    parent_[high] = low;
  }

 private:
  std::vector<size_t> parent_;
};

void SortTopologically(const Dag& dag, std::vector<int>* ops) {
  for (int op : *ops) {
    if (op < 0 || op >= dag.num_ops()) {
      throw GraphError("operator " + std::to_string(op) + " is outside 0.." +
                       std::to_string(dag.num_ops() - 1));
    }
  }
  const std::vector<int>& position = dag.topological_position();
  std::sort(ops->begin(), ops->end(), [&](int a, int b) { return position[a] < position[b]; });
  const auto twin = std::adjacent_find(ops->begin(), ops->end());
  if (twin != ops->end()) {
    throw GraphError("operator " + std::to_string(*twin) + " is named twice");
  }
}

}  // namespace

std::vector<std::vector<int>> Components(const Dag& dag, std::vector<int> ops) {
  SortTopologically(dag, &ops);
  std::unordered_map<int, size_t> rank;
  for (size_t i = 0; i < ops.size(); ++i) rank.emplace(ops[i], i);

  DisjointSets sets(ops.size());
  for (size_t i = 0; i < ops.size(); ++i) {
    for (int successor : dag.successors(ops[i])) {
      const auto found = rank.find(successor);
      if (found != rank.end()) sets.Join(i, found->second);
    }
  }
  // A representative is its component's first operator, so it is visited before the others.
  std::vector<std::vector<int>> components;
  std::unordered_map<size_t, size_t> index;
  for (size_t i = 0; i < ops.size(); ++i) {
    const size_t component = index.emplace(sets.Find(i), components.size()).first->second;
    if (component == components.size()) components.emplace_back();
    components[component].push_back(ops[i]);
  }
  return components;
}

}  // namespace tvm_ios
