// SPDX-License-Identifier: Apache-2.0
#include "graph/partition.h"

#include <algorithm>
#include <utility>

#include "support/error.h"

namespace tvm_ios {
namespace {

/*! \brief For each cut before position 0 .. num_ops the operators whose output crosses it. */
std::vector<int64_t> CountLiveProducers(const Dag& dag) {
  const std::vector<int>& position = dag.topological_position();
  std::vector<int64_t> live(dag.num_ops() + 1, 0);
  for (int op = 0; op < dag.num_ops(); ++op) {
    int last_use = position[op];
    for (int successor : dag.successors(op)) last_use = std::max(last_use, position[successor]);
    ++live[position[op] + 1];
    --live[last_use + 1];
  }
  for (size_t cut = 1; cut < live.size(); ++cut) live[cut] += live[cut - 1];
  return live;
}

/*! \brief For each end of a prefix the best start of its last block. */
std::vector<int> ChooseBlockStarts(const std::vector<int64_t>& live, int64_t max_block_size) {
  using Cost = std::pair<int64_t, int64_t>;  // branches cut, blocks
  const int num_ops = static_cast<int>(live.size()) - 1;
  std::vector<Cost> best(num_ops + 1);
  std::vector<int> start(num_ops + 1, 0);
  for (int end = 1; end <= num_ops; ++end) {
    const int first = static_cast<int>(std::max<int64_t>(0, end - max_block_size));
    for (int cut = first; cut < end; ++cut) {
      const int64_t branches = cut == 0 ? 0 : std::max<int64_t>(0, live[cut] - 1);
      const Cost cost{best[cut].first + branches, best[cut].second + 1};
      if (cut == first || cost < best[end]) {
        best[end] = cost;
        start[end] = cut;
      }
    }
  }
  return start;
}

}  // namespace

std::vector<std::vector<int>> Partition(const Dag& dag, int64_t max_block_size) {
  if (max_block_size < 1) throw OptionError("max_block_size must be at least 1");
  const std::vector<int> start = ChooseBlockStarts(CountLiveProducers(dag), max_block_size);
  const std::vector<int>& order = dag.topological_order();
  std::vector<std::vector<int>> blocks;
  for (int end = dag.num_ops(); end > 0; end = start[end]) {
    blocks.emplace_back(order.begin() + start[end], order.begin() + end);
  }
  std::reverse(blocks.begin(), blocks.end());
  return blocks;
}

}  // namespace tvm_ios
