// SPDX-License-Identifier: Apache-2.0
/*!
 * \file random_dag.h
 * \brief Small graphs for tests that compare with brute force.
 */
#ifndef TVM_IOS_TESTS_RANDOM_DAG_H_
#define TVM_IOS_TESTS_RANDOM_DAG_H_

#include <algorithm>
#include <numeric>
#include <random>
#include <utility>
#include <vector>

#include "graph/dag.h"

namespace tvm_ios {

/*! \brief A graph whose operators are not numbered in topological order. */
inline Dag RandomDag(int num_ops, double density, std::mt19937* random) {
  std::vector<int> rank(num_ops);
  std::iota(rank.begin(), rank.end(), 0);
  std::shuffle(rank.begin(), rank.end(), *random);
  std::bernoulli_distribution has_edge(density);
  std::vector<Dag::Edge> edges;
  for (int i = 0; i < num_ops; ++i) {
    for (int j = i + 1; j < num_ops; ++j) {
      if (has_edge(*random)) edges.emplace_back(rank[i], rank[j]);
    }
  }
  return Dag(num_ops, edges);
}

/*! \brief The members of a set of fewer than 32 operators, bit k being operator k. */
inline std::vector<int> Members(uint32_t set) {
  std::vector<int> members;
  for (int op = 0; op < 32; ++op) {
    if (set >> op & 1) members.push_back(op);
  }
  return members;
}

/*! \brief Whether no edge leads from a part to the rest of a set. */
inline bool IsClosed(const Dag& dag, uint32_t part, uint32_t set) {
  for (int op : Members(part)) {
    for (int successor : dag.successors(op)) {
      if ((set & ~part) >> successor & 1) return false;
    }
  }
  return true;
}

/*! \brief 0 -> 1 -> ... -> num_ops - 1. */
inline Dag Chain(int num_ops) {
  std::vector<Dag::Edge> edges;
  for (int op = 1; op < num_ops; ++op) edges.emplace_back(op - 1, op);
  return Dag(num_ops, edges);
}

}  // namespace tvm_ios
#endif  // TVM_IOS_TESTS_RANDOM_DAG_H_
