// SPDX-License-Identifier: Apache-2.0
#include "graph/cut.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "graph/max_flow.h"

namespace tvm_ios {
namespace {

constexpr int kRounds = 3;  // radius in edges of an operator's neighbourhood

uint64_t Mix(uint64_t value) {
  value = (value ^ value >> 30) * 0xbf58476d1ce4e5b9ULL;
  value = (value ^ value >> 27) * 0x94d049bb133111ebULL;
  return value ^ value >> 31;
}

/*! \brief Hash the neighbourhood of each operator: the wiring, not the numbering. */
std::vector<uint64_t> HashSurroundings(const Dag& dag) {
  std::vector<uint64_t> hash(dag.num_ops(), 1);
  for (int round = 0; round < kRounds; ++round) {
    std::vector<uint64_t> next(dag.num_ops());
    for (int op = 0; op < dag.num_ops(); ++op) {
      uint64_t before = 0, after = 0;
      for (int producer : dag.predecessors(op)) before += Mix(hash[producer] + 1);
      for (int reader : dag.successors(op)) after += Mix(hash[reader] + 2);
      next[op] = Mix(Mix(Mix(hash[op]) + before) + after);
    }
    hash = std::move(next);
  }
  return hash;
}

/*! \brief Return the last operator that reads op's output, or -1. */
int LastReader(const Dag& dag, int op) {
  const IntSpan readers = dag.successors(op);
  return readers.size() == 0 ? -1 : *(readers.end() - 1);
}

}  // namespace

bool operator<(const Cut& a, const Cut& b) {
  const int a_size = a.size(), b_size = b.size();
  return std::tie(a_size, a.base, a.extra) < std::tie(b_size, b.base, b.extra);
}

bool Cut::Contains(int op) const {
  return op < base || std::binary_search(extra.begin(), extra.end(), op);
}

bool Cut::IsWithin(const Cut& other) const {
  // Operator other.base is not in the other cut.
  return base <= other.base &&
         std::all_of(extra.begin(), extra.end(), [&](int op) { return other.Contains(op); });
}

Cut Cut::Of(int base, std::vector<int> extra) {
  std::sort(extra.begin(), extra.end());
  size_t taken = 0;
  for (; taken < extra.size() && extra[taken] <= base; ++taken)
    base = std::max(base, extra[taken] + 1);
  extra.erase(extra.begin(), extra.begin() + taken);
  return Cut{base, std::move(extra)};
}

CutCosts::CutCosts(const Dag& dag, const std::vector<int64_t>& merge_class)
    : dag_(dag), class_of_(dag.num_ops(), -1), surroundings_(HashSurroundings(dag)) {
  FindClasses(merge_class);
  CountAtBases();
}

void CutCosts::FindClasses(const std::vector<int64_t>& merge_class) {
  std::map<int64_t, std::vector<int>> members;
  for (size_t op = 0; op < merge_class.size(); ++op) {
    if (merge_class[op] >= 0) members[merge_class[op]].push_back(static_cast<int>(op));
  }
  for (auto& [number, ops] : members) {
    if (ops.size() < 2) continue;
    for (int op : ops) class_of_[op] = static_cast<int>(classes_.size());
    classes_.push_back(std::move(ops));
  }
}

void CutCosts::CountAtBases() {
  live_.resize(dag_.num_ops() + 2);
  divided_.resize(dag_.num_ops() + 2);
  for (int op = 0; op < dag_.num_ops(); ++op) {
    const int end = std::max(op, LastReader(dag_, op)) + 1;
    ++live_[op + 1].count;
    --live_[end].count;
    live_[op + 1].signature += surroundings_[op];
    live_[end].signature -= surroundings_[op];
  }
  for (const std::vector<int>& ops : classes_) {
    ++divided_[ops.front() + 1];
    --divided_[ops.back() + 1];
  }
  for (size_t base = 1; base < live_.size(); ++base) {
    live_[base].count += live_[base - 1].count;
    live_[base].signature += live_[base - 1].signature;
    divided_[base] += divided_[base - 1];
  }
}

CutCosts::Measured CutCosts::Measure(const Cut& cut) const {
  const Live live = LiveAcross(cut);
  return {std::max<int64_t>(0, live.count - 1) + DividedClasses(cut), live.signature};
}

CutCosts::Live CutCosts::LiveAcross(const Cut& cut) const {
  const auto read_later = [&](int op) {
    const IntSpan readers = dag_.successors(op);
    return !std::all_of(readers.begin(), readers.end(),
                        [&](int reader) { return cut.Contains(reader); });
  };
  Live live = live_[cut.base];
  std::vector<int> read;  // live at the base, and read by the extra operators
  for (int op : cut.extra) {
    if (read_later(op)) {
      ++live.count;
      live.signature += surroundings_[op];
    }
    for (int producer : dag_.predecessors(op)) {
      if (producer < cut.base) read.push_back(producer);
    }
  }
  std::sort(read.begin(), read.end());
  read.erase(std::unique(read.begin(), read.end()), read.end());
  for (int op : read) {
    if (read_later(op)) continue;
    --live.count;
    live.signature -= surroundings_[op];
  }
  return live;
}

int64_t CutCosts::DividedClasses(const Cut& cut) const {
  std::vector<int> touched;
  for (int op : cut.extra) {
    if (class_of_[op] >= 0) touched.push_back(class_of_[op]);
  }
  std::sort(touched.begin(), touched.end());
  touched.erase(std::unique(touched.begin(), touched.end()), touched.end());
  int64_t divided = divided_[cut.base];
  for (int number : touched) {
    const std::vector<int>& ops = classes_[number];
    divided -= ops.front() < cut.base && ops.back() >= cut.base;
    divided += !std::all_of(ops.begin(), ops.end(), [&](int op) { return cut.Contains(op); });
  }
  return divided;
}

namespace {

/*! \brief The flow network whose minimum cuts are the cheapest cuts in a range. */
class RangeNetwork {
 public:
  RangeNetwork(const CutCosts& costs, const CutRange& range)
      : costs_(costs), dag_(costs.dag()), range_(range) {
    for (int op = range.begin; op < range.end; ++op) network_.AddNode();
    AddProducers();
    AddClasses();
    if (range.through < 0) return;
    network_.AddEdge(FlowNetwork::kSource, Node(range.through), FlowNetwork::kInfinite);
    for (int reader : dag_.successors(range.through)) {
      if (reader < range.end) {
        network_.AddEdge(Node(reader), FlowNetwork::kSink, FlowNetwork::kInfinite);
      }
    }
  }

  std::vector<Cut> Solve(InterruptPoller* poller) {
    network_.MaxFlow(poller);
    return {CutOf(network_.SmallestSourceSide()), CutOf(network_.LargestSourceSide())};
  }

 private:
  int Node(int op) const {
    if (op < range_.begin) return FlowNetwork::kSource;
    if (op >= range_.end) return FlowNetwork::kSink;
    return 2 + op - range_.begin;
  }

  void AddProducers() {
    std::vector<int> earlier;
    for (int op = range_.begin; op < range_.end; ++op) {
      for (int producer : dag_.predecessors(op)) {
        if (producer < range_.begin) {
          earlier.push_back(producer);
        } else {  // a producer of a value that is read before the cut is before the cut
          network_.AddEdge(Node(op), Node(producer), FlowNetwork::kInfinite);
        }
      }
      AddProducer(op);
    }
    std::sort(earlier.begin(), earlier.end());
    earlier.erase(std::unique(earlier.begin(), earlier.end()), earlier.end());
    for (int op : earlier) {
      // A value that is read after the range is live at any cut.
      if (LastReader(dag_, op) < range_.end) AddProducer(op);
    }
  }

  /*! \brief Add one unit that is cut if the operator is before the cut and any reader after it. */
  void AddProducer(int op) {
    if (dag_.successors(op).size() == 0) return;
    const int live = network_.AddNode();
    network_.AddEdge(Node(op), live, 1);
    for (int reader : dag_.successors(op)) {
      if (reader < range_.begin) continue;
      network_.AddEdge(live, Node(reader), FlowNetwork::kInfinite);
      if (reader >= range_.end) break;
    }
  }

  /*! \brief Add one unit for each class with members on both sides. */
  void AddClasses() {
    std::vector<int> touched;
    for (int op = range_.begin; op < range_.end; ++op) {
      if (costs_.class_of()[op] >= 0) touched.push_back(costs_.class_of()[op]);
    }
    std::sort(touched.begin(), touched.end());
    touched.erase(std::unique(touched.begin(), touched.end()), touched.end());
    for (int number : touched) {
      const std::vector<int>& ops = costs_.classes()[number];
      // Any cut divides this class.
      if (ops.front() < range_.begin && ops.back() >= range_.end) continue;
      const int any_before = network_.AddNode(), all_before = network_.AddNode();
      network_.AddEdge(any_before, all_before, 1);
      for (int op : ops) {
        if (op < range_.end) network_.AddEdge(Node(op), any_before, FlowNetwork::kInfinite);
        if (op >= range_.begin) network_.AddEdge(all_before, Node(op), FlowNetwork::kInfinite);
      }
    }
  }

  Cut CutOf(const std::vector<bool>& source_side) const {
    std::vector<int> before;
    for (int op = range_.begin; op < range_.end; ++op) {
      if (source_side[Node(op)]) before.push_back(op);
    }
    return Cut::Of(range_.begin, std::move(before));
  }

  const CutCosts& costs_;
  const Dag& dag_;
  const CutRange range_;
  FlowNetwork network_;
};

}  // namespace

std::vector<Cut> CheapestCuts(const CutCosts& costs, const CutRange& range,
                              InterruptPoller* poller) {
  return RangeNetwork(costs, range).Solve(poller);
}

}  // namespace tvm_ios
