// SPDX-License-Identifier: Apache-2.0
/*!
 * \file cut.h
 * \brief Cuts of a graph in two, what they cost, and the cheapest ones.
 */
#ifndef TVM_IOS_GRAPH_CUT_H_
#define TVM_IOS_GRAPH_CUT_H_

#include <cstdint>
#include <vector>

#include "graph/dag.h"
#include "support/interrupt.h"

namespace tvm_ios {

/*!
 * \brief What runs before a cut: operators with all that they depend on.
 *
 * Of a graph whose operators are numbered in a topological order. Most cuts are near a place of
 * that order, so this is the operators below `base` and a few later ones.
 */
struct Cut {
  int base{0};
  /*! \brief Above base, in increasing order. */
  std::vector<int> extra;

  int size() const { return base + static_cast<int>(extra.size()); }
  bool Contains(int op) const;
  /*! \brief Whether all that runs before this cut runs before the other. */
  bool IsWithin(const Cut& other) const;
  /*! \brief The cut after `base` operators and `extra`, which need not begin above base. */
  static Cut Of(int base, std::vector<int> extra);

  friend bool operator==(const Cut& a, const Cut& b) {
    return a.base == b.base && a.extra == b.extra;
  }
  friend bool operator<(const Cut& a, const Cut& b);
};

/*!
 * \brief Prices cuts.
 *
 * A cut is a barrier between the operators before it and those after it. Where one operator's
 * output is all that is live across it, as between the blocks of a CNN, the barrier is there
 * anyway and the cut is free; every further live operator is a branch whose concurrency the cut
 * takes away. Where a cut has operators on both sides that could be merged into one, it forbids
 * that, which counts as much as a branch.
 */
class CutCosts {
 public:
  /*!
   * \param dag Numbered in a topological order; it must outlive this.
   * \param merge_class For each operator its class, negative if it is never merged. Empty: none is.
   */
  CutCosts(const Dag& dag, const std::vector<int64_t>& merge_class);

  const Dag& dag() const { return dag_; }

  /*! \brief Branches that the cut takes away, and merge classes that it divides. */
  int64_t Cost(const Cut& cut) const { return Measure(cut).cost; }

  /*! \brief Equal for cuts through equal surroundings, wherever these stand in the graph. */
  uint64_t Signature(const Cut& cut) const { return Measure(cut).signature; }

  /*! \brief The members of each class, in increasing order; classes of one are left out. */
  const std::vector<std::vector<int>>& classes() const { return classes_; }
  /*! \brief The class of each operator, or -1. */
  const std::vector<int>& class_of() const { return class_of_; }

 private:
  struct Live {
    int64_t count{0};
    uint64_t signature{0};  // the sum over the live operators of a hash of their surroundings
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

/*! \brief Where a cheapest cut is looked for. */
struct CutRange {
  /*! \brief Operators below run before the cut. */
  int begin;
  /*! \brief Operators from here on run after it. */
  int end;
  /*! \brief An operator that runs before the cut, and all that read it after; -1 for none. */
  int through{-1};
};

/*!
 * \brief The cheapest cuts in a range: of those that cost least the smallest and the largest.
 *
 * A minimum vertex cut, as IOPS (section 2.2) splits networks, found as a maximum flow.
 */
std::vector<Cut> CheapestCuts(const CutCosts& costs, const CutRange& range,
                              InterruptPoller* poller);

}  // namespace tvm_ios
#endif  // TVM_IOS_GRAPH_CUT_H_
