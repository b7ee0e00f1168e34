// SPDX-License-Identifier: Apache-2.0
#include "graph/dag.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <queue>
#include <string>

#include "support/error.h"

namespace tvm_ios {
namespace {

void CheckSize(int64_t num_ops, size_t num_edges) {
  if (num_ops < 1) throw GraphError("a graph needs at least one operator");
  constexpr int64_t kMaxOps = int64_t{1} << 20;
  constexpr size_t kMaxEdges = std::numeric_limits<int>::max() - 1;
  if (num_ops > kMaxOps || num_edges > kMaxEdges) {
    throw GraphError("a graph has at most 2^20 operators and fewer than 2^31 - 1 edges");
  }
}

void CheckEdge(const Dag::Edge& edge, int64_t num_ops) {
  const auto [from, to] = edge;
  const std::string name = "the edge (" + std::to_string(from) + ", " + std::to_string(to) + ")";
  if (std::min(from, to) < 0 || std::max(from, to) >= num_ops) {
    throw GraphError(name + " names an operator outside 0.." + std::to_string(num_ops - 1));
  }
  if (from == to) throw GraphError(name + " joins an operator to itself");
}

/*!
 * \brief Compress sorted, distinct edges to rows: the edges that start at an operator are a row.
 */
void Compress(int num_ops, const std::vector<Dag::Edge>& edges, std::vector<int>* begin,
              std::vector<int>* neighbours) {
  begin->assign(num_ops + 1, 0);
  neighbours->reserve(edges.size());
  for (const auto& [from, to] : edges) {
    ++(*begin)[from + 1];
    neighbours->push_back(static_cast<int>(to));
  }
  for (int op = 0; op < num_ops; ++op) (*begin)[op + 1] += (*begin)[op];
}

}  // namespace

Dag::Dag(int64_t num_ops, const std::vector<Edge>& edges) {
  CheckSize(num_ops, edges.size());
  for (const Edge& edge : edges) CheckEdge(edge, num_ops);
  num_ops_ = static_cast<int>(num_ops);

  std::vector<Edge> rows(edges);
  std::sort(rows.begin(), rows.end());
  rows.erase(std::unique(rows.begin(), rows.end()), rows.end());
  Compress(num_ops_, rows, &successor_begin_, &successors_);
  for (Edge& edge : rows) std::swap(edge.first, edge.second);
  std::sort(rows.begin(), rows.end());
  Compress(num_ops_, rows, &predecessor_begin_, &predecessors_);
  Sort();
}

void Dag::Sort() {
  std::vector<size_t> waiting(num_ops_);
  std::priority_queue<int, std::vector<int>, std::greater<int>> ready;
  for (int op = 0; op < num_ops_; ++op) {
    waiting[op] = predecessors(op).size();
    if (waiting[op] == 0) ready.push(op);
  }
  position_.assign(num_ops_, -1);
  order_.reserve(num_ops_);
  while (!ready.empty()) {
    const int op = ready.top();
    ready.pop();
    position_[op] = static_cast<int>(order_.size());
    order_.push_back(op);
    for (int successor : successors(op)) {
      if (--waiting[successor] == 0) ready.push(successor);
    }
  }
  if (static_cast<int>(order_.size()) != num_ops_) {
    const auto stuck = std::find(position_.begin(), position_.end(), -1) - position_.begin();
    throw GraphError("the graph has a cycle, on operator " + std::to_string(stuck) +
                     " or before it");
  }
}

}  // namespace tvm_ios
