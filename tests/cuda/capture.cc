// SPDX-License-Identifier: Apache-2.0
#include "cuda/capture.h"

#include <algorithm>

namespace standin {

Frontier LaunchGraph::Add(const std::string& name, const Frontier& after) {
  int depth = 1;
  for (size_t node : after) depth = std::max(depth, nodes_[node].depth + 1);
  nodes_.push_back({name, after, depth});
  return {nodes_.size() - 1};
}

bool LaunchGraph::IsComplete(const Frontier& end) const {
  Frontier reached;
  std::vector<size_t> pending(end.begin(), end.end());
  while (!pending.empty()) {
    const size_t node = pending.back();
    pending.pop_back();
    if (!reached.insert(node).second) continue;
    pending.insert(pending.end(), nodes_[node].after.begin(), nodes_[node].after.end());
  }
  return reached.size() == nodes_.size();
}

int LaunchGraph::Depth() const {
  int depth = 0;
  for (const Node& node : nodes_) depth = std::max(depth, node.depth);
  return depth;
}

std::string LaunchGraph::Names() const {
  std::string names;
  for (const Node& node : nodes_) names += " " + node.name;
  return names;
}

}  // namespace standin
