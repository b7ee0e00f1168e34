// SPDX-License-Identifier: Apache-2.0
/*!
 * \file partition.h
 * \brief Partitioning of a network into blocks that are searched one by one.
 */
#ifndef TVM_IOS_GRAPH_PARTITION_H_
#define TVM_IOS_GRAPH_PARTITION_H_

#include <cstdint>
#include <vector>

#include "graph/dag.h"
#include "support/interrupt.h"

namespace tvm_ios {

/*!
 * \brief Partition a network into blocks of at most max_block_size operators, which run in turn.
 *
 * A cut costs the branches whose concurrency it removes and the merge classes that it divides, see
 * CutCosts. The total cost is to be low. IOPS (section 2.2) cuts a network in two at a
 * minimum vertex cut, and then each part in the same way. Here such cuts are only collected first:
 * for each operator the cheapest cuts that follow it closely, and for each range of a topological
 * order the cheapest cuts in it, along with all positions of that order. The partition is the best
 * combination of them:
 *
 *   - of least cost,
 *   - among these, one with the fewest blocks, so that a plain chain is cut only as its length
 *     demands,
 *   - among these, one whose cuts have the most equal ones in the network, so that equal parts are
 *     cut equally.
 *
 * The cost is thus at most that of the best cuts of the topological order, and free cuts, at which
 * a single operator is live, are preferred. Then operators move across each cut for as long as this
 * makes the cut cheaper. The procedure is repeated along two topological orders, the graph's own
 * and one in which operators stand late, and along those of the blocks found while that improves
 * the result. The best partition is returned.
 *
 * \param merge_class The class of each operator, negative if it is never merged. Empty: no operator
 *  is merged.
 * \return The blocks, each in topological order.
 * \param interrupt Called regularly.
 * \throw OptionError for a size below one, a wrong number of classes, or cuts that take too much
 *  memory.
 */
std::vector<std::vector<int>> Partition(const Dag& dag, int64_t max_block_size,
                                        const std::vector<int64_t>& merge_class = {},
                                        const Interrupt& interrupt = nullptr);

/*!
 * \brief Return the cost of blocks: the branches that their cuts remove plus the classes that they
 * divide.
 * \throw GraphError unless each operator is in one block, and none reads from a later block.
 */
int64_t PartitionCost(const Dag& dag, const std::vector<std::vector<int>>& blocks,
                      const std::vector<int64_t>& merge_class = {});

}  // namespace tvm_ios
#endif  // TVM_IOS_GRAPH_PARTITION_H_
