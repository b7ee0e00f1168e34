// SPDX-License-Identifier: Apache-2.0
#include "graph/max_flow.h"

#include <algorithm>

namespace tvm_ios {

void FlowNetwork::AddEdge(int from, int to, int64_t capacity) {
  edges_of_[from].push_back(static_cast<int>(edges_.size()));
  edges_.push_back({to, capacity});
  edges_of_[to].push_back(static_cast<int>(edges_.size()));
  edges_.push_back({from, 0});
}

int64_t FlowNetwork::MaxFlow(InterruptPoller* poller) {
  int64_t flow = 0;
  while (FindLevels(poller)) {
    next_.assign(edges_of_.size(), 0);
    while (FindPath(poller)) flow += Push();
  }
  return flow;
}

bool FlowNetwork::FindLevels(InterruptPoller* poller) {
  level_.assign(edges_of_.size(), -1);
  level_[kSource] = 0;
  std::vector<int> queue{kSource};
  for (size_t i = 0; i < queue.size(); ++i) {
    poller->Tick(edges_of_[queue[i]].size());
    for (int number : edges_of_[queue[i]]) {
      const Edge& edge = edges_[number];
      if (edge.rest == 0 || level_[edge.to] >= 0) continue;
      level_[edge.to] = level_[queue[i]] + 1;
      queue.push_back(edge.to);
    }
  }
  return level_[kSink] >= 0;
}

/*! \brief Find a path: follow the next edge of each node, and backtrack if there is none. */
bool FlowNetwork::FindPath(InterruptPoller* poller) {
  path_.clear();
  int node = kSource;
  while (node != kSink) {
    poller->Tick();
    if (next_[node] == edges_of_[node].size()) {
      if (path_.empty()) return false;
      node = edges_[path_.back() ^ 1].to;
      path_.pop_back();
      ++next_[node];
      continue;
    }
    const int number = edges_of_[node][next_[node]];
    const Edge& edge = edges_[number];
    if (edge.rest == 0 || level_[edge.to] != level_[node] + 1) {
      ++next_[node];
      continue;
    }
    path_.push_back(number);
    node = edge.to;
  }
  return true;
}

/*! \brief Push the largest possible flow along the path. */
int64_t FlowNetwork::Push() {
  int64_t pushed = kInfinite;
  for (int number : path_) pushed = std::min(pushed, edges_[number].rest);
  for (int number : path_) {
    edges_[number].rest -= pushed;
    edges_[number ^ 1].rest += pushed;
  }
  return pushed;
}

std::vector<bool> FlowNetwork::SmallestSourceSide() const {
  std::vector<bool> reached(edges_of_.size(), false);
  reached[kSource] = true;
  std::vector<int> queue{kSource};
  for (size_t i = 0; i < queue.size(); ++i) {
    for (int number : edges_of_[queue[i]]) {
      const Edge& edge = edges_[number];
      if (edge.rest == 0 || reached[edge.to]) continue;
      reached[edge.to] = true;
      queue.push_back(edge.to);
    }
  }
  return reached;
}

std::vector<bool> FlowNetwork::LargestSourceSide() const {
  std::vector<bool> side(edges_of_.size(), true);
  side[kSink] = false;
  std::vector<int> queue{kSink};
  for (size_t i = 0; i < queue.size(); ++i) {
    for (int number : edges_of_[queue[i]]) {
      const int from = edges_[number].to;
      if (edges_[number ^ 1].rest == 0 || !side[from]) continue;
      side[from] = false;
      queue.push_back(from);
    }
  }
  return side;
}

}  // namespace tvm_ios
