// SPDX-License-Identifier: Apache-2.0
/*!
 * \file endings.h
 * \brief Enumerates the endings of a set of remaining operators.
 *
 * An ending of S is a non-empty E ⊆ S with no edge from E to S - E (IOS, section 4.1): the part of
 * S that may run last. Its groups are its weakly connected components; the pruning P(r, s) keeps
 * the endings of at most s groups of at most r operators each (IOS, section 4.3).
 *
 * Let "closed" mean: no edge leaves the set for the rest of S. Then
 *
 *  1. Each component C of an ending E is closed: an edge from C into S stays in E, since E is
 *     closed, and so in C, since C is a component.
 *  2. Two disjoint closed sets A, B are never adjacent: an edge from a ∈ A to b ∈ B ⊆ S would leave
 *     the closed set A. So a union of pairwise disjoint connected closed sets is closed, its
 *     components are exactly these sets, and no other choice of such sets has the same union.
 *
 * Hence the endings under P(r, s) are, each exactly once, the unions of 1 to s pairwise disjoint
 * connected closed sets ("connected endings") of at most r operators. The connected endings of S
 * are enumerated once, then combined; nothing is generated to be thrown away.
 *
 *  3. The cone of v, which is v with all its descendants within S, is the smallest closed set that
 *     has v. A connected ending C is the union of the cones of its sources. Join two sources whose
 *     cones intersect: the graph of the sources is connected, because the ends of each edge of C
 *     share a cone. So the cones can be added one by one, each of them meeting the union so far,
 *     and every union on the way is a connected ending no larger than C: growing by intersecting
 *     cones up to r operators finds all of them.
 *
 * S itself is what is left after endings were removed, so it holds the predecessors of its
 * operators, every path that ends in S lies in S, and a cone is (descendants of v) ∩ S.
 */
#ifndef TVM_IOS_SEARCH_ENDINGS_H_
#define TVM_IOS_SEARCH_ENDINGS_H_

#include <cstddef>
#include <vector>

#include "graph/dag.h"
#include "support/intern_table.h"
#include "support/interrupt.h"

namespace tvm_ios {

/*! \brief The pruning P(r, s); a limit of num_ops or more does not prune. */
struct Pruning {
  size_t max_group_size;
  size_t max_num_groups;
};

/*!
 * \brief The connected endings of a set with a limited number of operators; keeps its scratch
 * memory.
 *
 * The order depends on the graph only, not on Bits.
 */
template <typename Bits>
class ConnectedEndings {
 public:
  /*! \brief Make the enumeration. The graph and the poller must outlive it. */
  ConnectedEndings(const DagBits<Bits>& graph, size_t max_size, InterruptPoller* poller)
      : graph_(graph), max_size_(max_size), poller_(poller) {}

  /*! \brief Find the connected endings of a set that contains its operators' predecessors. */
  void Find(const Bits& remaining) {
    Find(remaining, [](const Bits&) { return true; });
  }

  /*!
   * \brief Find the wanted connected endings; a superset of an unwanted one must be unwanted, too.
   */
  template <typename Wanted>
  void Find(const Bits& remaining, Wanted wanted) {
    cones_.clear();
    found_.Clear();
    for (int op : remaining) {
      Bits cone = graph_.descendants[op] & remaining;
      if (cone.Count() > max_size_ || !wanted(cone)) continue;
      found_.Intern(cone);
      cones_.push_back(std::move(cone));
    }
    for (size_t i = 0; i < found_.size(); ++i) {
      const Bits part = found_[i];  // a copy: the table reallocates as it grows
      for (const Bits& cone : cones_) {
        poller_->Tick();
        if (cone.IsDisjointFrom(part) || cone.IsSubsetOf(part)) continue;
        const Bits grown = part | cone;
        if (grown.Count() <= max_size_ && wanted(grown)) found_.Intern(grown);
      }
    }
  }

  size_t size() const { return found_.size(); }
  const Bits& operator[](size_t i) const { return found_[i]; }

 private:
  const DagBits<Bits>& graph_;
  const size_t max_size_;
  InterruptPoller* const poller_;
  std::vector<Bits> cones_;
  InternTable<Bits> found_;
};

/*!
 * \brief An enumerator of endings; keeps its scratch memory from one set to the next.
 *
 * The order depends on the graph only, not on Bits.
 */
template <typename Bits>
class EndingEnumerator {
 public:
  /*! \brief Make an enumerator. The graph and the poller must outlive it. */
  EndingEnumerator(const DagBits<Bits>& graph, Pruning pruning, InterruptPoller* poller)
      : max_num_groups_(pruning.max_num_groups),
        poller_(poller),
        connected_(graph, pruning.max_group_size, poller) {}

  /*!
   * \brief Call visit(ending) for each ending of a set that contains its operators' predecessors.
   *
   * An ending precedes the endings that it is a part of by whole groups.
   */
  template <typename Visit>
  void ForEach(const Bits& remaining, Visit visit) {
    connected_.Find(remaining);
    // Depth-first over increasing tuples of disjoint connected endings, without recursion: frame d
    // holds the union of the tuple's first d + 1 elements, and the number of the last one.
    stack_.clear();
    size_t next = 0;
    while (true) {
      for (; next < connected_.size(); ++next) {
        poller_->Tick();
        if (stack_.empty() || stack_.back().ops.IsDisjointFrom(connected_[next])) break;
      }
      if (next < connected_.size()) {
        Push(next);
        visit(static_cast<const Bits&>(stack_.back().ops));
        if (stack_.size() < max_num_groups_) {
          ++next;
          continue;
        }
      }
      if (stack_.empty()) return;
      next = stack_.back().last + 1;
      stack_.pop_back();
    }
  }

 private:
  struct Frame {
    Bits ops;
    size_t last;
  };

  void Push(size_t next) {
    Frame frame{connected_[next], next};
    if (!stack_.empty()) frame.ops |= stack_.back().ops;
    stack_.push_back(std::move(frame));
  }

  const size_t max_num_groups_;
  InterruptPoller* const poller_;
  ConnectedEndings<Bits> connected_;
  std::vector<Frame> stack_;
};

}  // namespace tvm_ios
#endif  // TVM_IOS_SEARCH_ENDINGS_H_
