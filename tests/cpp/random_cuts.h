// SPDX-License-Identifier: Apache-2.0
/*!
 * \file random_cuts.h
 * \brief What cuts cost, from the definition, for tests that compare with brute force.
 */
#ifndef TVM_IOS_TESTS_RANDOM_CUTS_H_
#define TVM_IOS_TESTS_RANDOM_CUTS_H_

#include <algorithm>
#include <map>
#include <random>
#include <vector>

#include "random_dag.h"

namespace tvm_ios {

/*! \brief A graph whose operators are numbered in topological order. */
inline Dag OrderedRandomDag(int num_ops, double density, std::mt19937* random) {
  std::bernoulli_distribution has_edge(density);
  std::vector<Dag::Edge> edges;
  for (int i = 0; i < num_ops; ++i) {
    for (int j = i + 1; j < num_ops; ++j) {
      if (has_edge(*random)) edges.emplace_back(i, j);
    }
  }
  return Dag(num_ops, edges);
}

/*! \brief Merge classes of which some operators have none. */
inline std::vector<int64_t> RandomClasses(int num_ops, std::mt19937* random) {
  std::vector<int64_t> classes;
  for (int op = 0; op < num_ops; ++op) {
    classes.push_back(static_cast<int64_t>((*random)() % (num_ops + 2)) - 2);
  }
  return classes;
}

/*! \brief Whether a set of operators holds all that they depend on. */
inline bool IsBefore(const Dag& dag, uint32_t set) {
  const uint32_t all = (1u << dag.num_ops()) - 1;
  return IsClosed(dag, all & ~set, all);
}

/*! \brief Operators of a set that are read outside of it. */
inline int CountLive(const Dag& dag, uint32_t set) {
  int live = 0;
  for (int op : Members(set)) {
    const IntSpan readers = dag.successors(op);
    live += std::any_of(readers.begin(), readers.end(),
                        [&](int reader) { return !(set >> reader & 1); });
  }
  return live;
}

/*! \brief Classes with members inside and outside of a set. */
inline int CountDivided(const std::vector<int64_t>& classes, uint32_t set) {
  std::map<int64_t, int> sides;
  for (size_t op = 0; op < classes.size(); ++op) {
    if (classes[op] >= 0) sides[classes[op]] |= set >> op & 1 ? 1 : 2;
  }
  return static_cast<int>(
      std::count_if(sides.begin(), sides.end(), [](const auto& side) { return side.second == 3; }));
}

}  // namespace tvm_ios
#endif  // TVM_IOS_TESTS_RANDOM_CUTS_H_
