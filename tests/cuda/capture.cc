// SPDX-License-Identifier: Apache-2.0
#include "cuda/capture.h"

#include <algorithm>
#include <utility>

#include "cuda/order.h"

namespace fake_driver {

Frontier LaunchGraph::Add(const std::string& name, const Frontier& after, Work work) {
  return Append(name, after, 1, std::move(work));
}

Frontier LaunchGraph::AddRecord(const std::string& name, size_t event, const Frontier& after) {
  const Frontier behind = Append(name, after, 0, nullptr);
  records_[event] = nodes_.back().depth;
  return behind;
}

Frontier LaunchGraph::Append(const std::string& name, const Frontier& after, int launches,
                             Work work) {
  int depth = 0;
  for (size_t node : after) depth = std::max(depth, nodes_[node].depth);
  nodes_.push_back({name, after, depth + launches, std::move(work)});
  return {nodes_.size() - 1};
}

Result LaunchGraph::Run() const {
  Order order;
  std::vector<std::vector<size_t>> next(nodes_.size());
  std::vector<size_t> awaited(nodes_.size());
  std::vector<size_t> ready;  // ascending
  for (size_t node = 0; node < nodes_.size(); ++node) {
    awaited[node] = nodes_[node].after.size();
    if (awaited[node] == 0) ready.push_back(node);
    for (size_t before : nodes_[node].after) next[before].push_back(node);
  }
  while (!ready.empty()) {
    const auto chosen = ready.begin() + static_cast<ptrdiff_t>(order.Choose(ready.size()));
    const size_t node = *chosen;
    ready.erase(chosen);
    if (nodes_[node].work != nullptr) {
      if (const Result result = nodes_[node].work()) return result;
    }
    for (size_t after : next[node]) {
      if (--awaited[after] > 0) continue;
      ready.insert(std::lower_bound(ready.begin(), ready.end(), after), after);
    }
  }
  return kSuccess;
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

}  // namespace fake_driver
