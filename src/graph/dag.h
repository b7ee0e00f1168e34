// SPDX-License-Identifier: Apache-2.0
/*!
 * \file dag.h
 * \brief The dataflow graph that is scheduled.
 */
#ifndef TVM_IOS_GRAPH_DAG_H_
#define TVM_IOS_GRAPH_DAG_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "support/bitset.h"

namespace tvm_ios {

/*! \brief A part of a vector, for example the neighbours of an operator. */
class IntSpan {
 public:
  IntSpan(const int* begin, const int* end) : begin_(begin), end_(end) {}
  const int* begin() const { return begin_; }
  const int* end() const { return end_; }
  size_t size() const { return static_cast<size_t>(end_ - begin_); }

 private:
  const int* begin_;
  const int* end_;
};

/*!
 * \brief An immutable directed acyclic graph over the operators 0 .. num_ops - 1.
 *
 * An edge (u, v) means that v reads the output of u. Several tensors between the same two operators
 * are one edge.
 */
class Dag {
 public:
  using Edge = std::pair<int64_t, int64_t>;

  /*!
   * \brief Build the graph.
   * \throw GraphError if there are no operators, or if an edge leaves the range, joins an operator
   *  to itself, or closes a cycle.
   */
  Dag(int64_t num_ops, const std::vector<Edge>& edges);

  int num_ops() const { return num_ops_; }
  int num_edges() const { return static_cast<int>(successors_.size()); }
  /*! \brief Direct successors in increasing order. */
  IntSpan successors(int op) const { return Row(successor_begin_, successors_, op); }
  /*! \brief Direct predecessors in increasing order. */
  IntSpan predecessors(int op) const { return Row(predecessor_begin_, predecessors_, op); }
  /*!
   * \brief The operators in topological order; the ready operator with the smallest index comes
   * first.
   */
  const std::vector<int>& topological_order() const { return order_; }
  /*! \brief The position of each operator in the topological order. */
  const std::vector<int>& topological_position() const { return position_; }

 private:
  static IntSpan Row(const std::vector<int>& begin, const std::vector<int>& neighbours, int op) {
    return IntSpan(neighbours.data() + begin[op], neighbours.data() + begin[op + 1]);
  }
  void Sort();

  int num_ops_;
  std::vector<int> successor_begin_, successors_;
  std::vector<int> predecessor_begin_, predecessors_;
  std::vector<int> order_, position_;
};

/*!
 * \brief The relations of a Dag as one bitset per operator.
 *
 * The size is quadratic in the number of operators. It is meant for the blocks that are searched,
 * not for whole networks.
 */
template <typename Bits>
struct DagBits {
  explicit DagBits(const Dag& dag)
      : num_ops(dag.num_ops()),
        predecessors(num_ops, Bits(num_ops)),
        successors(num_ops, Bits(num_ops)),
        descendants(num_ops, Bits(num_ops)) {
    const std::vector<int>& order = dag.topological_order();
    for (auto op = order.rbegin(); op != order.rend(); ++op) {
      descendants[*op].Set(*op);
      for (int successor : dag.successors(*op)) {
        successors[*op].Set(successor);
        predecessors[successor].Set(*op);
        descendants[*op] |= descendants[successor];
      }
    }
  }

  int num_ops;
  std::vector<Bits> predecessors;
  std::vector<Bits> successors;
  /*! \brief All operators that depend on the operator, itself included. */
  std::vector<Bits> descendants;
};

}  // namespace tvm_ios
#endif  // TVM_IOS_GRAPH_DAG_H_
