// SPDX-License-Identifier: Apache-2.0
/*!
 * \file partition.h
 * \brief Cuts a network into blocks that are searched one by one.
 */
#ifndef TVM_IOS_GRAPH_PARTITION_H_
#define TVM_IOS_GRAPH_PARTITION_H_

#include <cstdint>
#include <vector>

#include "graph/dag.h"
#include "support/interrupt.h"

namespace tvm_ios {

/*!
 * \brief Cuts a network into blocks of at most max_block_size operators, which run in turn.
 *
 * A cut costs the branches whose concurrency it takes away and the merge classes that it divides,
 * see CutCosts; the blocks are to cost little in sum. IOPS (section 2.2) cuts a network in two at a
 * minimum vertex cut, and so on with the parts. Here such cuts are collected first, for each
 * operator the cheapest ones that follow it closely and for each stretch of a topological order the
 * cheapest ones in it, along with all places of that order; the partition is the best that can be
 * made of all of them,
 *
 *   - of least cost,
 *   - of these one with the fewest blocks, so that a plain chain is cut only as its length demands,
 *   - of these one with the cuts that have the most equals in the network, so that equal parts are
 *     cut equally.
 *
 * Thus it costs no more than the best cuts of the topological order, and free cuts, where a single
 * operator is live, are taken first. Then operators move across each cut for as long as this makes
 * the cut cheaper. All is done along two topological orders, the graph's own and one in which
 * operators stand late, and along those of the blocks found while that helps; the best is taken.
 *
 * \param merge_class For each operator its class, negative if it is never merged. Empty: none is.
 * \return The blocks, each in topological order.
 * \param interrupt Called now and then.
 * \throw OptionError for a size below one, classes that are not one for each operator, or cuts that
 *        take too much memory.
 */
std::vector<std::vector<int>> Partition(const Dag& dag, int64_t max_block_size,
                                        const std::vector<int64_t>& merge_class = {},
                                        const Interrupt& interrupt = nullptr);

/*!
 * \brief What blocks cost: the branches that their cuts take away and the classes that they divide.
 * \throw GraphError unless each operator is in one block, and none reads from a later block.
 */
int64_t PartitionCost(const Dag& dag, const std::vector<std::vector<int>>& blocks,
                      const std::vector<int64_t>& merge_class = {});

}  // namespace tvm_ios
#endif  // TVM_IOS_GRAPH_PARTITION_H_
