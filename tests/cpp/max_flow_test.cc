// SPDX-License-Identifier: Apache-2.0
#include "graph/max_flow.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace tvm_ios {
namespace {

struct TestEdge {
  int from, to;
  int64_t capacity;
};

std::vector<TestEdge> RandomEdges(int num_nodes, std::mt19937* random) {
  std::vector<TestEdge> edges;
  for (int from = 0; from < num_nodes; ++from) {
    for (int to = 0; to < num_nodes; ++to) {
      if (from != to && (*random)() % 3 == 0) {
        edges.push_back({from, to, static_cast<int64_t>((*random)() % 5)});
      }
    }
  }
  return edges;
}

/*! \brief Capacity of the edges that leave a set of nodes, bit k being node k. */
int64_t Leaving(const std::vector<TestEdge>& edges, uint32_t set) {
  int64_t sum = 0;
  for (const TestEdge& edge : edges) {
    if (set >> edge.from & 1 && !(set >> edge.to & 1)) sum += edge.capacity;
  }
  return sum;
}

uint32_t AsSet(const std::vector<bool>& side) {
  uint32_t set = 0;
  for (size_t node = 0; node < side.size(); ++node) set |= uint32_t{side[node]} << node;
  return set;
}

TEST(FlowNetwork, FollowsLongPaths) {
  InterruptPoller poller(nullptr);
  constexpr int kLength = 1000000;
  FlowNetwork network;
  int last = FlowNetwork::kSource;
  for (int i = 0; i < kLength; ++i) {
    const int next = network.AddNode();
    network.AddEdge(last, next, 3);
    last = next;
  }
  network.AddEdge(last, FlowNetwork::kSink, 2);
  EXPECT_EQ(network.MaxFlow(&poller), 2);
}

TEST(FlowNetwork, FindsMinimumCuts) {
  InterruptPoller poller(nullptr);
  std::mt19937 random(3);
  for (int round = 0; round < 200; ++round) {
    const int num_nodes = 2 + round % 7;
    const std::vector<TestEdge> edges = RandomEdges(num_nodes, &random);
    FlowNetwork network;
    for (int node = 2; node < num_nodes; ++node) EXPECT_EQ(network.AddNode(), node);
    for (const TestEdge& edge : edges) network.AddEdge(edge.from, edge.to, edge.capacity);

    int64_t least = INT64_MAX;
    uint32_t smallest = 0, largest = 0;  // the minimum cuts' intersection and union
    for (uint32_t set = 0; set < 1u << num_nodes; ++set) {
      if ((set & 3) != 1 || Leaving(edges, set) > least) continue;
      const bool better = Leaving(edges, set) < least;
      smallest = better ? set : smallest & set;
      largest = better ? set : largest | set;
      least = Leaving(edges, set);
    }
    EXPECT_EQ(network.MaxFlow(&poller), least);
    EXPECT_EQ(AsSet(network.SmallestSourceSide()), smallest);
    EXPECT_EQ(AsSet(network.LargestSourceSide()), largest);
  }
}

}  // namespace
}  // namespace tvm_ios
