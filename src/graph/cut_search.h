// SPDX-License-Identifier: Apache-2.0
/*!
 * \file cut_search.h
 * \brief Local search around the cuts of a partition.
 */
#ifndef TVM_IOS_GRAPH_CUT_SEARCH_H_
#define TVM_IOS_GRAPH_CUT_SEARCH_H_

#include <vector>

#include "graph/cut.h"
#include "support/interrupt.h"

namespace tvm_ios {

/*!
 * \brief Move operators across cuts as long as that makes a cut cheaper.
 *
 * Operators move one after another, after Fiduccia and Mattheyses. Each step moves the operator
 * whose move leaves the cheapest cut, even if it costs more than before, and the cheapest cut seen
 * is kept. A cut that cannot be improved thus stays unchanged.
 *
 * \param cuts Each within the next; the last one contains all operators.
 * \param max_block_size The limit of operators between a cut and the next. The given cuts respect
 *  it, and so do the results.
 */
void ImproveCuts(const CutCosts& costs, int max_block_size, std::vector<Cut>* cuts,
                 InterruptPoller* poller);

}  // namespace tvm_ios
#endif  // TVM_IOS_GRAPH_CUT_SEARCH_H_
