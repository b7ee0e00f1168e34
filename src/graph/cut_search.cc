// SPDX-License-Identifier: Apache-2.0
#include "graph/cut_search.h"

#include <algorithm>
#include <utility>

namespace tvm_ios {
namespace {

/*! \brief Return the operators of a cut that are not in a smaller cut within it. */
std::vector<int> Between(const Cut& before, const Cut& cut) {
  std::vector<int> ops;
  for (int op = before.base; op < cut.base; ++op) {
    if (!before.Contains(op)) ops.push_back(op);
  }
  std::copy_if(cut.extra.begin(), cut.extra.end(), std::back_inserter(ops),
               [&](int op) { return !before.Contains(op); });
  return ops;
}

/*! \brief The search around one cut; its neighbours stay fixed. */
class CutMover {
 public:
  CutMover(const CutCosts& costs, int max_block_size, const Cut& before, const Cut& after,
           InterruptPoller* poller)
      : costs_(costs),
        before_(before),
        ops_(Between(before, after)),
        smallest_(std::max(1, static_cast<int>(ops_.size()) - max_block_size)),
        largest_(std::min(max_block_size, static_cast<int>(ops_.size()) - 1)),
        poller_(poller) {}

  /*!
   * \brief Return the cheapest cut on the way to the fewest, or the most, operators that are
   * allowed.
   */
  Cut Walk(const Cut& from, bool forward) const {
    Cut best = from, cut = from;
    int64_t least = costs_.Cost(from);
    int size = from.size() - before_.size();
    while (forward ? size < largest_ : size > smallest_) {
      const auto [cost, next] = Step(cut, forward);
      cut = next;
      size += forward ? 1 : -1;
      if (cost < least) {
        least = cost;
        best = cut;
      }
    }
    return best;
  }

 private:
  /*! \brief Move the operator whose move leaves the cheapest cut. */
  std::pair<int64_t, Cut> Step(const Cut& cut, bool forward) const {
    std::pair<int64_t, Cut> best{-1, cut};
    for (int op : ops_) {
      poller_->Tick();
      if (!IsMovable(cut, op, forward)) continue;
      Cut moved = Moved(cut, op, forward);
      poller_->Tick(moved.extra.size());
      const int64_t cost = costs_.Cost(moved);
      if (best.first < 0 || cost < best.first) best = {cost, std::move(moved)};
    }
    return best;
  }

  bool IsMovable(const Cut& cut, int op, bool forward) const {
    if (cut.Contains(op) == forward) return false;
    const Dag& dag = costs_.dag();
    const IntSpan bound = forward ? dag.predecessors(op) : dag.successors(op);
    return std::all_of(bound.begin(), bound.end(),
                       [&](int other) { return cut.Contains(other) == forward; });
  }

  Cut Moved(const Cut& cut, int op, bool forward) const {
    std::vector<int> inside = Between(before_, cut);
    if (forward) {
      inside.push_back(op);
    } else {
      inside.erase(std::find(inside.begin(), inside.end(), op));
    }
    inside.insert(inside.end(), before_.extra.begin(), before_.extra.end());
    return Cut::Of(before_.base, std::move(inside));
  }

  const CutCosts& costs_;
  const Cut& before_;
  const std::vector<int> ops_;
  const int smallest_, largest_;
  InterruptPoller* const poller_;
};

}  // namespace

void ImproveCuts(const CutCosts& costs, int max_block_size, std::vector<Cut>* cuts,
                 InterruptPoller* poller) {
  bool improved = true;
  while (improved) {
    improved = false;
    for (size_t i = 0; i + 1 < cuts->size(); ++i) {
      Cut& cut = (*cuts)[i];
      const int64_t cost = costs.Cost(cut);
      if (cost == 0) continue;
      const Cut before = i == 0 ? Cut{} : (*cuts)[i - 1];
      const CutMover mover(costs, max_block_size, before, (*cuts)[i + 1], poller);
      for (bool forward : {false, true}) cut = mover.Walk(cut, forward);
      improved |= costs.Cost(cut) < cost;
    }
  }
}

}  // namespace tvm_ios
