// SPDX-License-Identifier: Apache-2.0
/*!
 * \file stage_model.h
 * \brief A cost of stages whose structure a search can bound.
 */
#ifndef TVM_IOS_SEARCH_STAGE_MODEL_H_
#define TVM_IOS_SEARCH_STAGE_MODEL_H_

#include <functional>
#include <vector>

#include "graph/dag.h"
#include "search/schedule.h"

namespace tvm_ios {

/*!
 * \brief A cost of stages with a known structure.
 *
 *     stage + group * (groups - 1) + max(longest group, work),
 *
 * The length of a group is the sum of its operators' lengths, and the work is that of all
 * operators.
 */
struct StageModel {
  double stage{0};
  double group{0};
  std::vector<double> length;  //!< By operator: time on all resources that it can use.
  std::vector<double> work;    //!< By operator: time on the whole machine.
  /*! \brief The full cost of operators merged into one; unset if nothing is merged. */
  std::function<double(const std::vector<int>& ops)> merged;
};

/*! \throw OptionError unless the model has a length and a work of each operator, and no time is
 *  infinite or below 0. */
void CheckModel(const Dag& dag, const StageModel& model);

/*!
 * \brief Return the cost of one stage.
 * \throw GraphError if the operators are not a valid stage.
 */
double StageCost(const Dag& dag, const StageModel& model, const std::vector<int>& ops,
                 Strategy strategy);

/*!
 * \brief Return the model with its cost of merged operators checked, and asked for once for each
 * set.
 *
 * The result refers to the model. It throws an OptionError for a cost below 0.
 */
StageModel WithCheckedMerges(const StageModel& model);

}  // namespace tvm_ios
#endif  // TVM_IOS_SEARCH_STAGE_MODEL_H_
