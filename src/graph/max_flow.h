// SPDX-License-Identifier: Apache-2.0
/*!
 * \file max_flow.h
 * \brief Maximum flows and minimum cuts of small networks.
 */
#ifndef TVM_IOS_GRAPH_MAX_FLOW_H_
#define TVM_IOS_GRAPH_MAX_FLOW_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "support/interrupt.h"

namespace tvm_ios {

/*!
 * \brief A network of edges with integer capacities, and Dinic's algorithm on it.
 *
 * Node kSource is the source and node kSink the sink.
 */
class FlowNetwork {
 public:
  static constexpr int kSource = 0;
  static constexpr int kSink = 1;
  /*! \brief A capacity that exceeds any cut of finite edges. */
  static constexpr int64_t kInfinite = int64_t{1} << 60;

  FlowNetwork() : edges_of_(2) {}

  /*! \brief Add a node. */
  int AddNode() {
    edges_of_.emplace_back();
    return static_cast<int>(edges_of_.size()) - 1;
  }

  void AddEdge(int from, int to, int64_t capacity);

  /*!
   * \brief Compute the maximum flow, at most once. No path may consist of infinite edges only.
   * \param poller Ticks with each edge that is visited.
   */
  int64_t MaxFlow(InterruptPoller* poller);

  /*!
   * \brief Return whether each node is on the smallest source side of a minimum cut; call after
   * MaxFlow.
   */
  std::vector<bool> SmallestSourceSide() const;

  /*!
   * \brief Return whether each node is on the largest source side of a minimum cut; call after
   * MaxFlow.
   */
  std::vector<bool> LargestSourceSide() const;

 private:
  struct Edge {
    int to;
    int64_t rest;  // residual capacity; the reverse edge has number ^ 1
  };

  bool FindLevels(InterruptPoller* poller);
  bool FindPath(InterruptPoller* poller);
  int64_t Push();

  std::vector<Edge> edges_;
  std::vector<std::vector<int>> edges_of_;
  std::vector<int> level_;
  std::vector<size_t> next_;
  std::vector<int> path_;  // the edges from the source to the sink
};

}  // namespace tvm_ios
#endif  // TVM_IOS_GRAPH_MAX_FLOW_H_
