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

namespace tvm_ios {

/*!
 * \brief Cuts the topological order into consecutive blocks.
 *
 * A cut is a barrier between the operators before it and those after it. Where one operator's
 * output is all that is live across it, as between the blocks of a CNN, the barrier is there
 * anyway and the cut is free; every further live operator is a branch whose concurrency the cut
 * takes away. So the blocks are, among those of at most max_block_size operators, the ones of least
 *
 *     sum over the cuts of  max(0, operators before the cut that are read after it - 1),
 *
 * and of these the fewest, and of these the ones that are cut first at the earliest place, counted
 * from the end of the network. A plain chain is thus cut only as its length demands.
 *
 * \return The blocks, each in topological order.
 * \throw OptionError for a size below one.
 */
std::vector<std::vector<int>> Partition(const Dag& dag, int64_t max_block_size);

}  // namespace tvm_ios
#endif  // TVM_IOS_GRAPH_PARTITION_H_
