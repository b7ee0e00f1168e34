// SPDX-License-Identifier: Apache-2.0
/*!
 * \file components.h
 * \brief The groups of a stage.
 */
#ifndef TVM_IOS_GRAPH_COMPONENTS_H_
#define TVM_IOS_GRAPH_COMPONENTS_H_

#include <vector>

#include "graph/dag.h"

namespace tvm_ios {

/*!
 * \brief Return the weakly connected components of the subgraph that the operators induce.
 * \param dag The graph.
 * \param ops Distinct operators, in any order.
 * \return The components, each in topological order, in the order of their first operators.
 * \throw GraphError for an operator that is out of range or named twice.
 */
std::vector<std::vector<int>> Components(const Dag& dag, std::vector<int> ops);

}  // namespace tvm_ios
#endif  // TVM_IOS_GRAPH_COMPONENTS_H_
