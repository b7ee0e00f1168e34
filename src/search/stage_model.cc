// SPDX-License-Identifier: Apache-2.0
#include "search/stage_model.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <string>

#include "graph/components.h"
#include "support/error.h"

namespace tvm_ios {
namespace {

void CheckTime(double time) {
  if (!(time >= 0 && std::isfinite(time))) {
    throw OptionError("the times of the model must be numbers of at least 0");
  }
}

}  // namespace

void CheckModel(const Dag& dag, const StageModel& model) {
  const size_t num_ops = static_cast<size_t>(dag.num_ops());
  if (model.length.size() != num_ops || model.work.size() != num_ops) {
    throw OptionError("the model has " + std::to_string(model.length.size()) + " lengths and " +
                      std::to_string(model.work.size()) + " works for " + std::to_string(num_ops) +
                      " operators");
  }
  CheckTime(model.stage);
  CheckTime(model.group);
  for (double time : model.length) CheckTime(time);
  for (double time : model.work) CheckTime(time);
}

double StageCost(const Dag& dag, const StageModel& model, const std::vector<int>& ops,
                 Strategy strategy) {
  const std::vector<std::vector<int>> groups = Components(dag, ops);
  if (groups.empty()) throw GraphError("a stage needs at least one operator");
  if (strategy == Strategy::kMerge) return model.merged(ops);
  double longest = 0, work = 0;
  for (const std::vector<int>& group : groups) {
    double length = 0;
    for (int op : group) {
      length += model.length[op];
      work += model.work[op];
    }
    longest = std::max(longest, length);
  }
  return model.stage + model.group * static_cast<double>(groups.size() - 1) +
         std::max(longest, work);
}

StageModel WithCheckedMerges(const StageModel& model) {
  StageModel checked = model;
  checked.merged =
      [&model, known = std::map<std::vector<int>, double>()](const std::vector<int>& ops) mutable {
        const auto [entry, is_new] = known.try_emplace(ops);
        if (is_new) {
          entry->second = model.merged(ops);
          if (!(entry->second >= 0)) throw OptionError("merged operators must cost at least 0");
        }
        return entry->second;
      };
  return checked;
}

}  // namespace tvm_ios
