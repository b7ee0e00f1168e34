// SPDX-License-Identifier: Apache-2.0
/*!
 * \file lower_bound.h
 * \brief Lower bounds for the cost of remaining operators, however they are divided into stages.
 *
 * All stages together take at least as long as the longest path through the operators, and as all
 * their work. A stage contains at most as many operators of a path as the limit of a group.
 */
#ifndef TVM_IOS_SEARCH_LOWER_BOUND_H_
#define TVM_IOS_SEARCH_LOWER_BOUND_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <vector>

#include "graph/dag.h"
#include "search/dp.h"
#include "search/merges.h"
#include "search/stage_model.h"

namespace tvm_ios {

/*! \brief Lower bounds for operators in any stage, and for sets of operators. */
template <typename Bits>
class LowerBound {
 public:
  /*!
   * \brief Make the bounds.
   *
   * A merged stage may take less than its operators' work and length. Each operator of a class
   * counts only a share of its own work and length: the smallest share that any merged stage of the
   * class takes.
   */
  LowerBound(const Dag& dag, const StageModel& model, const SearchOptions& options)
      : model_(model), work_(model.work), length_(model.length) {
    Discount(options.merge_class);
    std::vector<size_t> chain(dag.num_ops(), 1);  // operators on the longest path to each
    depth_ = length_;
    for (int op : dag.topological_order()) {
      for (int successor : dag.successors(op)) {
        depth_[successor] = std::max(depth_[successor], depth_[op] + length_[successor]);
        chain[successor] = std::max(chain[successor], chain[op] + 1);
      }
    }
    by_depth_ = Sorted(dag.num_ops(), [&](int a, int b) { return depth_[a] > depth_[b]; });
    by_chain_ = Sorted(dag.num_ops(), [&](int a, int b) { return chain[a] > chain[b]; });
    // A group has a limited number of operators, and a stage has at most one group of a path.
    for (int op : by_chain_) {
      stages_.push_back(static_cast<double>((chain[op] - 1) / options.pruning.max_group_size + 1));
    }
  }

  /*!
   * \brief Where the search for the deepest remaining operators begins.
   *
   * What is found for a set is where it begins for all subsets.
   */
  struct Place {
    size_t depth{0}, chain{0};
  };

  /*!
   * \brief Return a lower bound for a group and the longest path to it.
   *
   * The group's predecessors run in earlier stages. A superset of the group costs no less: the path
   * to it is shorter by at most the operators that the group gains.
   */
  double OfGroup(const Bits& ops, const Bits& predecessors) const {
    double length = 0;
    for (int op : ops) length += length_[op];
    const size_t deepest = First(by_depth_, predecessors, 0);
    return length + (deepest == by_depth_.size() ? 0.0 : depth_[by_depth_[deepest]]);
  }

  /*! \brief The work of an operator as the bound counts it. */
  double work(int op) const { return work_[op]; }

  double Work(const Bits& ops) const {
    double sum = 0;
    for (int op : ops) sum += work_[op];
    return sum;
  }

  /*!
   * \brief Return a lower bound for the remaining operators, of which there is at least one.
   * \param remaining Operators with all their predecessors.
   * \param work The work of all of them.
   * \param place That of a superset; it becomes that of these operators.
   * \param stages The least number of their stages.
   */
  double Of(const Bits& remaining, double work, Place* place, double stages = 1) const {
    place->depth = First(by_depth_, remaining, place->depth);
    place->chain = First(by_chain_, remaining, place->chain);
    stages = std::max(stages, stages_[place->chain]);
    return model_.stage * stages + std::max(depth_[by_depth_[place->depth]], work);
  }

 private:
  /*! \brief The largest class whose subsets are enumerated. */
  static constexpr size_t kMaxMerged = 12;

  template <typename Before>
  static std::vector<int> Sorted(int num_ops, Before before) {
    std::vector<int> order(num_ops);
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), before);
    return order;
  }

  /*! \brief Return the position of the first member from a position on. */
  static size_t First(const std::vector<int>& order, const Bits& members, size_t position) {
    while (position < order.size() && !members.Test(order[position])) ++position;
    return position;
  }

  void Discount(const std::vector<int64_t>& merge_class) {
    for (const auto& [number, members] : MembersByClass(merge_class)) DiscountClass(members);
  }

  void DiscountClass(const std::vector<int>& members) {
    double work_share = 1, length_share = 1;
    if (members.size() > kMaxMerged) work_share = length_share = 0;
    for (uint64_t subset = 1; work_share > 0 && subset < uint64_t{1} << members.size(); ++subset) {
      std::vector<int> ops;
      double work = 0, length = 0;
      for (size_t i = 0; i < members.size(); ++i) {
        if ((subset >> i & 1) == 0) continue;
        ops.push_back(members[i]);
        work += model_.work[members[i]];
        length = std::max(length, model_.length[members[i]]);
      }
      const double merged = std::max(0.0, model_.merged(ops) - model_.stage);
      work_share = std::min(work_share, work > 0 ? merged / work : 1.0);
      length_share = std::min(length_share, length > 0 ? merged / length : 1.0);
    }
    for (int op : members) {
      work_[op] *= work_share;
      length_[op] *= length_share;
    }
  }

  const StageModel& model_;
  std::vector<double> work_, length_;
  std::vector<double> depth_;   // the longest path to an operator, itself included
  std::vector<double> stages_;  // the least number of stages of that path, in order of chains
  std::vector<int> by_depth_, by_chain_;
};

}  // namespace tvm_ios
#endif  // TVM_IOS_SEARCH_LOWER_BOUND_H_
