// SPDX-License-Identifier: Apache-2.0
#include "graph/partition.h"

#include <algorithm>
#include <map>
#include <string>
#include <tuple>
#include <utility>

#include "graph/cut.h"
#include "graph/cut_search.h"
#include "support/error.h"
#include "support/memory.h"

namespace tvm_ios {
namespace {

using Blocks = std::vector<std::vector<int>>;

/*! \brief Renumber the operators of a graph by their positions in an order. */
Dag Renumbered(const Dag& dag, const std::vector<int>& position) {
  std::vector<Dag::Edge> edges;
  for (int op = 0; op < dag.num_ops(); ++op) {
    for (int reader : dag.successors(op)) edges.emplace_back(position[op], position[reader]);
  }
  return Dag(dag.num_ops(), edges);
}

std::vector<int> Positions(const std::vector<int>& order) {
  std::vector<int> position(order.size());
  for (size_t i = 0; i < order.size(); ++i) position[order[i]] = static_cast<int>(i);
  return position;
}

/*! \brief Return a topological order in which operators stand shortly before their readers. */
std::vector<int> LateOrder(const Dag& dag) {
  std::vector<int> depth(dag.num_ops(), 0), ends, order;
  for (int op : dag.topological_order()) {
    for (int reader : dag.successors(op)) depth[reader] = std::max(depth[reader], depth[op] + 1);
    if (dag.successors(op).size() == 0) ends.push_back(op);
  }
  const auto deeper = [&](int a, int b) {
    return depth[a] != depth[b] ? depth[a] > depth[b] : a < b;
  };
  // The deepest of all inputs comes first: the others wait until they are needed.
  std::sort(ends.begin(), ends.end(), [&](int a, int b) { return deeper(b, a); });
  std::vector<bool> seen(dag.num_ops(), false);
  std::vector<std::pair<int, bool>> stack;  // an operator, and whether its inputs are placed
  for (int end : ends) {
    stack.emplace_back(end, false);
    while (!stack.empty()) {
      const auto [op, ready] = stack.back();
      stack.pop_back();
      if (ready) order.push_back(op);
      if (ready || seen[op]) continue;
      seen[op] = true;
      stack.emplace_back(op, true);
      std::vector<int> inputs(dag.predecessors(op).begin(), dag.predecessors(op).end());
      std::sort(inputs.begin(), inputs.end(), deeper);
      for (auto input = inputs.rbegin(); input != inputs.rend(); ++input) {
        if (!seen[*input]) stack.emplace_back(*input, false);
      }
    }
  }
  return order;
}

/*! \brief A cut that a partition may use. */
struct Candidate {
  Cut cut;
  int64_t cost;
  int64_t rarity;  // 0 for the cuts with the most equal ones
};

/*! \brief Return all cuts that a partition may use, from the smallest to the largest. */
std::vector<Cut> CollectCuts(const CutCosts& costs, int max_block_size, InterruptPoller* poller) {
  const int num_ops = costs.dag().num_ops();
  std::vector<Cut> cuts;
  for (int base = 0; base <= num_ops; ++base) cuts.push_back(Cut{base, {}});
  const auto add = [&](const CutRange& range) {
    for (Cut& cut : CheapestCuts(costs, range, poller)) cuts.push_back(std::move(cut));
  };
  // Operators between two free cuts that fit into a block need no further cut.
  for (int begin = 0, end = 1; end <= num_ops; ++end) {
    if (end < num_ops && costs.Cost(Cut{end, {}}) > 0) continue;
    for (int op = begin; op < end && end - begin > max_block_size; ++op) {
      for (int length : {(max_block_size + 1) / 2, max_block_size}) {
        add({op, std::min(end, op + length)});
      }
      if (costs.dag().successors(op).size() == 0) continue;
      add({std::max(begin, op - max_block_size), std::min(end, op + 1 + max_block_size), op});
    }
    begin = end;
  }
  std::sort(cuts.begin(), cuts.end());
  cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
  return cuts;
}

std::vector<Candidate> CollectCandidates(const CutCosts& costs, int max_block_size,
                                         InterruptPoller* poller) {
  std::vector<Candidate> candidates;
  std::map<uint64_t, int64_t> equals;
  std::vector<uint64_t> signatures;
  for (Cut& cut : CollectCuts(costs, max_block_size, poller)) {
    poller->Tick(cut.extra.size());
    signatures.push_back(costs.Signature(cut));
    ++equals[signatures.back()];
    const int64_t cost = costs.Cost(cut);
    candidates.push_back({std::move(cut), cost, 0});
  }
  std::vector<std::pair<int64_t, uint64_t>> ranking;
  for (const auto& [signature, count] : equals) ranking.emplace_back(-count, signature);
  std::sort(ranking.begin(), ranking.end());
  std::map<uint64_t, int64_t> rank;
  for (const auto& [count, signature] : ranking) rank[signature] = rank.size();
  for (size_t i = 0; i < candidates.size(); ++i) candidates[i].rarity = rank[signatures[i]];
  return candidates;
}

/*! \brief Return the best sequence of cuts; the last one contains all operators. */
std::vector<Cut> ChooseCuts(const std::vector<Candidate>& candidates, int max_block_size,
                            InterruptPoller* poller) {
  using Cost = std::tuple<int64_t, int64_t, int64_t>;  // cut cost, blocks, rarity
  std::vector<Cost> best(candidates.size());
  std::vector<int> previous(candidates.size(), -1);
  for (int i = 1; i < static_cast<int>(candidates.size()); ++i) {
    const Candidate& to = candidates[i];
    poller->Tick();
    for (int j = i - 1; j >= 0; --j) {
      const Candidate& from = candidates[j];
      if (from.cut.size() + max_block_size < to.cut.size()) break;
      if (from.cut.size() == to.cut.size() || (j > 0 && previous[j] < 0)) continue;
      const auto [cost, blocks, rarity] = best[j];
      const Cost sum{cost + to.cost, blocks + 1, rarity + to.rarity};
      if (previous[i] >= 0 && !(sum < best[i])) continue;
      poller->Tick(1 + from.cut.extra.size());
      if (!from.cut.IsWithin(to.cut)) continue;
      best[i] = sum;
      previous[i] = j;
    }
  }
  std::vector<Cut> cuts;
  for (int i = static_cast<int>(candidates.size()) - 1; i > 0; i = previous[i]) {
    cuts.push_back(candidates[i].cut);
  }
  std::reverse(cuts.begin(), cuts.end());
  return cuts;
}

/*! \brief Return the partition along one topological order. */
Blocks PartitionAlong(const Dag& dag, const std::vector<int>& order, int max_block_size,
                      const std::vector<int64_t>& merge_class, InterruptPoller* poller) {
  const std::vector<int> position = Positions(order);
  const Dag renumbered = Renumbered(dag, position);
  std::vector<int64_t> classes(merge_class.size());
  for (size_t op = 0; op < classes.size(); ++op) classes[position[op]] = merge_class[op];
  const CutCosts costs(renumbered, classes);
  std::vector<Cut> cuts =
      ChooseCuts(CollectCandidates(costs, max_block_size, poller), max_block_size, poller);
  ImproveCuts(costs, max_block_size, &cuts, poller);
  Blocks blocks;
  std::vector<bool> taken(dag.num_ops(), false);
  Cut before;
  for (const Cut& cut : cuts) {
    blocks.emplace_back();
    const auto take = [&](int op) {
      if (!taken[op]) blocks.back().push_back(order[op]);
      taken[op] = true;
    };
    for (int op = before.base; op < cut.base; ++op) take(op);
    for (int op : cut.extra) take(op);
    before = cut;
  }
  return blocks;
}

using Cost = std::pair<int64_t, size_t>;  // cut cost and blocks

/*! \brief Return the partition along an order, then along that of its blocks, while it improves. */
std::pair<Cost, Blocks> PartitionFrom(const Dag& dag, std::vector<int> order, int max_block_size,
                                      const std::vector<int64_t>& merge_class,
                                      InterruptPoller* poller) {
  std::pair<Cost, Blocks> best;
  while (true) {
    Blocks blocks = PartitionAlong(dag, order, max_block_size, merge_class, poller);
    const Cost cost{PartitionCost(dag, blocks, merge_class), blocks.size()};
    if (!best.second.empty() && cost >= best.first) return best;
    order.clear();
    for (const std::vector<int>& block : blocks) {
      order.insert(order.end(), block.begin(), block.end());
    }
    best = {cost, std::move(blocks)};
  }
}

std::vector<int> BlockOfEach(const Dag& dag, const Blocks& blocks) {
  std::vector<int> block_of(dag.num_ops(), -1);
  for (size_t block = 0; block < blocks.size(); ++block) {
    for (int op : blocks[block]) {
      if (op < 0 || op >= dag.num_ops()) {
        throw GraphError("a block has operator " + std::to_string(op) + ", which the graph lacks");
      }
      if (block_of[op] >= 0) {
        throw GraphError("operator " + std::to_string(op) + " is in the blocks twice");
      }
      block_of[op] = static_cast<int>(block);
    }
  }
  for (int op = 0; op < dag.num_ops(); ++op) {
    if (block_of[op] < 0) throw GraphError("operator " + std::to_string(op) + " is in no block");
    for (int reader : dag.successors(op)) {
      if (block_of[reader] >= 0 && block_of[reader] < block_of[op]) {
        throw GraphError("operator " + std::to_string(reader) + " reads from a later block");
      }
    }
  }
  return block_of;
}

void CheckClasses(const Dag& dag, const std::vector<int64_t>& merge_class) {
  if (merge_class.empty() || merge_class.size() == static_cast<size_t>(dag.num_ops())) return;
  throw OptionError("merge_class has " + std::to_string(merge_class.size()) + " entries for " +
                    std::to_string(dag.num_ops()) + " operators");
}

}  // namespace

std::vector<std::vector<int>> Partition(const Dag& dag, int64_t max_block_size,
                                        const std::vector<int64_t>& merge_class,
                                        const Interrupt& interrupt) {
  if (max_block_size < 1) throw OptionError("max_block_size must be at least 1");
  CheckClasses(dag, merge_class);
  const int size = static_cast<int>(std::min<int64_t>(max_block_size, dag.num_ops()));
  const MemoryBudget budget;
  InterruptPoller poller([&] {
    if (interrupt) interrupt();
    if (!budget.IsSpent()) return;
    throw OptionError("the cuts of " + std::to_string(dag.num_ops()) +
                      " operators take more than " + BytesText(budget.bytes()) +
                      " of memory, a quarter of what is free; choose a smaller max_block_size");
  });
  Blocks best;
  Cost least;
  for (const std::vector<int>& order : {dag.topological_order(), LateOrder(dag)}) {
    auto [cost, blocks] = PartitionFrom(dag, order, size, merge_class, &poller);
    if (!best.empty() && cost >= least) continue;
    least = cost;
    best = std::move(blocks);
  }
  for (std::vector<int>& block : best) {
    std::sort(block.begin(), block.end(), [&](int a, int b) {
      return dag.topological_position()[a] < dag.topological_position()[b];
    });
  }
  return best;
}

int64_t PartitionCost(const Dag& dag, const std::vector<std::vector<int>>& blocks,
                      const std::vector<int64_t>& merge_class) {
  CheckClasses(dag, merge_class);
  const std::vector<int> block_of = BlockOfEach(dag, blocks);
  // Changes from block to block, accumulated below.
  std::vector<int64_t> live(blocks.size() + 1, 0), divided(blocks.size() + 1, 0);
  std::map<int64_t, std::pair<int, int>> extent;  // the first and the last block of each class
  for (int op = 0; op < dag.num_ops(); ++op) {
    int last = block_of[op];
    for (int reader : dag.successors(op)) last = std::max(last, block_of[reader]);
    ++live[block_of[op]];
    --live[last];
    if (merge_class.empty() || merge_class[op] < 0) continue;
    auto& [first, end] =
        extent.emplace(merge_class[op], std::pair(block_of[op], block_of[op])).first->second;
    first = std::min(first, block_of[op]);
    end = std::max(end, block_of[op]);
  }
  for (const auto& [number, ends] : extent) {
    ++divided[ends.first];
    --divided[ends.second];
  }
  int64_t cost = 0;
  for (size_t block = 0; block + 1 < blocks.size(); ++block) {
    cost += std::max<int64_t>(0, live[block] - 1) + divided[block];
    live[block + 1] += live[block];
    divided[block + 1] += divided[block];
  }
  return cost;
}

}  // namespace tvm_ios
