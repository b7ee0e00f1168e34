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
 * \brief Moves operators across cuts as long as that makes a cut cheaper.
 *
 * One after another, after Fiduccia and Mattheyses: the operator goes whose move leaves the
 * cheapest cut, even if that is dearer than before, and the cheapest cut that was met is kept. A
 * cut that cannot be improved thus stays as it is.
 *
 * \param cuts Each within the next, the last one of all operators.
 * \param max_block_size Operators between a cut and the next; already so, and kept.
 */
void ImproveCuts(const CutCosts& costs, int max_block_size, std::vector<Cut>* cuts,
                 InterruptPoller* poller);

}  // namespace tvm_ios
#endif  // TVM_IOS_GRAPH_CUT_SEARCH_H_
