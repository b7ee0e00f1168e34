// SPDX-License-Identifier: Apache-2.0
/*!
 * \file cut.h
 * \brief Cuts of a graph in two, their costs, and the cheapest ones.
 */
#ifndef TVM_IOS_GRAPH_CUT_H_
#define TVM_IOS_GRAPH_CUT_H_

#include <cstdint>
#include <vector>

#include "graph/dag.h"
#include "support/interrupt.h"

namespace tvm_ios {

/*!
 * \brief The operators that run before a cut, with all that they depend on.
 *
 * The operators of the graph are numbered in a topological order. Most cuts are near a position in
 * that order, so a cut is stored as the operators below `base` and a few later ones.
 */
struct Cut {
  int base{0};
  /*! \brief Above base, in increasing order. */
  std::vector<int> extra;

  int size() const { return base + static_cast<int>(extra.size()); }
  bool Contains(int op) const;
  /*! \brief Return whether all operators before this cut are before the other one. */
  bool IsWithin(const Cut& other) const;
  /*! \brief Return the cut after `base` operators and `extra`, which need not begin above base. */
  static Cut Of(int base, std::vector<int> extra);

  friend bool operator==(const Cut& a, const Cut& b) {
    return a.base == b.base && a.extra == b.extra;
  }
  friend bool operator<(const Cut& a, const Cut& b);
};

/*!
 * \brief The costs of cuts.
 *
 * A cut is a barrier between the operators before it and those after it. If a single operator's
 * output is live across it, as between the blocks of a CNN, the barrier exists anyway and the cut
 * is free. Every further live operator is a branch whose concurrency the cut removes. If a cut has
 * mergeable operators on both sides, it prevents merging them, which counts as much as a branch.
 */
class CutCosts {
 public:
  /*!
   * \param dag Numbered in a topological order; it must outlive this.
   * \param merge_class The class of each operator, negative if it is never merged. Empty: no
   *  operator is merged.
   */
  CutCosts(const Dag& dag, const std::vector<int64_t>& merge_class);

  const Dag& dag() const { return dag_; }

  /*!
   * \brief Return the number of branches that the cut removes plus the merge classes that it
   * divides.
   */
  int64_t Cost(const Cut& cut) const { return Measure(cut).cost; }

  /*!
   * \brief Return a value that is equal for cuts through equal neighbourhoods anywhere in the
   * graph.
   */
  uint64_t Signature(const Cut& cut) const { return Measure(cut).signature; }

  /*! \brief The members of each class, in increasing order, without classes of one member. */
  const std::vector<std::vector<int>>& classes() const { return classes_; }
  /*! \brief The class of each operator, or -1. */
  const std::vector<int>& class_of() const { return class_of_; }

 private:
  struct Live {
    int64_t count{0};
    uint64_t signature{0};  // the sum over the live operators of their neighbourhoods' hashes
  };
  struct Measured {
    int64_t cost;
    uint64_t signature;
  };

  Measured Measure(const Cut& cut) const;
  Live LiveAcross(const Cut& cut) const;
  int64_t DividedClasses(const Cut& cut) const;
  void FindClasses(const std::vector<int64_t>& merge_class);
  void CountAtBases();

  const Dag& dag_;
  std::vector<std::vector<int>> classes_;
  std::vector<int> class_of_;
  std::vector<uint64_t> surroundings_;
  // For the cuts before 0 .. num_ops that have no extra operators:
  std::vector<Live> live_;
  std::vector<int64_t> divided_;
};

/*! \brief The range in which a cheapest cut is searched. */
struct CutRange {
  /*! \brief Operators below this one run before the cut. */
  int begin;
  /*! \brief Operators from this one on run after the cut. */
  int end;
  /*!
   * \brief An operator that runs before the cut while all its readers run after it; -1 for none.
   */
  int through{-1};
};

/*!
 * \brief Return the smallest and the largest of the cheapest cuts in a range.
 *
 * A cheapest cut is a minimum vertex cut, by which IOPS (section 2.2) splits networks, found as a
 * maximum flow.
 */
std::vector<Cut> CheapestCuts(const CutCosts& costs, const CutRange& range,
                              InterruptPoller* poller);

}  // namespace tvm_ios
#endif  // TVM_IOS_GRAPH_CUT_H_
