// SPDX-License-Identifier: Apache-2.0
#include "graph/waits.h"

#include <algorithm>
#include <utility>

#include "support/error.h"

namespace tvm_ios {
namespace {

constexpr int64_t kMaxWorkers = 128;

/*! \brief Return the quotient, rounded down. */
int64_t FloorDivide(int64_t dividend, int64_t divisor) {
  return dividend / divisor - (dividend % divisor < 0 ? 1 : 0);
}

/*! \brief Return the first byte after the access. */
int64_t End(const Access& access) {
  return access.begin + (access.count - 1) * access.stride + access.size;
}

/*! \brief For each worker, how many of its steps are known to be completed. */
using Clock = std::vector<int64_t>;

void Merge(const Clock& from, Clock* to) {
  for (size_t i = 0; i < to->size(); ++i) (*to)[i] = std::max((*to)[i], from[i]);
}

class Planner {
 public:
  Planner(int64_t workers, const std::vector<int64_t>& levels, const std::vector<Access>& accesses)
      : workers_(workers),
        accesses_(levels.size() * workers),
        known_(workers, Clock(workers, 0)),
        after_(levels.size() * workers) {
    for (const Access& access : accesses) {
      accesses_[access.position * workers + access.worker].push_back(access);
    }
  }

  WaitPlan Run(const std::vector<int64_t>& levels, int64_t max_waits) {
    const int64_t size = static_cast<int64_t>(levels.size());
    for (int64_t begin = 0, end = 0; begin < size; begin = end) {
      while (end < size && levels[end] == levels[begin]) ++end;
      PlanLevel(begin, end, std::min(max_waits, workers_) * workers_);
    }
    return std::move(plan_);
  }

 private:
  void PlanLevel(int64_t begin, int64_t end, int64_t max_waits) {
    const size_t planned = plan_.waits.size();
    for (int64_t position = begin; position < end; ++position) {
      for (int64_t worker = 0; worker < workers_; ++worker) PlanStep(begin, position, worker);
    }
    if (static_cast<int64_t>(plan_.waits.size() - planned) <= max_waits) return;
    plan_.waits.resize(planned);
    plan_.barriers.push_back(begin);
    for (int64_t worker = 0; worker < workers_; ++worker) {
      known_[worker].assign(workers_, begin);
      for (int64_t position = begin; position < end; ++position) Complete(position, worker);
    }
  }

  /*! \brief Plan one step, which may depend on the positions before ``level``. */
  void PlanStep(int64_t level, int64_t position, int64_t worker) {
    Clock& known = known_[worker];
    std::vector<Wait> needed;
    for (int64_t other = 0; other < workers_; ++other) {
      if (other == worker) continue;
      for (int64_t step = level; step > known[other]; --step) {
        if (!Conflict(At(position, worker), At(step - 1, other))) continue;
        needed.push_back({position, worker, other, step});
        break;
      }
    }
    for (const Wait& wait : needed) {
      const bool implied = std::any_of(needed.begin(), needed.end(), [&](const Wait& second) {
        return After(second)[wait.other] >= wait.completed && second.other != wait.other;
      });
      if (!implied) plan_.waits.push_back(wait);
    }
    for (const Wait& wait : needed) Merge(After(wait), &known);
    Complete(position, worker);
  }

  /*! \brief Note what is known when a step is completed. */
  void Complete(int64_t position, int64_t worker) {
    known_[worker][worker] = position + 1;
    after_[position * workers_ + worker] = known_[worker];
  }

  const Clock& After(const Wait& wait) const {
    return after_[(wait.completed - 1) * workers_ + wait.other];
  }

  const std::vector<Access>& At(int64_t position, int64_t worker) const {
    return accesses_[position * workers_ + worker];
  }

  static bool Conflict(const std::vector<Access>& first, const std::vector<Access>& second) {
    for (const Access& a : first) {
      for (const Access& b : second) {
        if ((a.writes || b.writes) && Overlap(a, b)) return true;
      }
    }
    return false;
  }

  const int64_t workers_;
  std::vector<std::vector<Access>> accesses_;  // by step: position times workers, plus worker
  std::vector<Clock> known_;                   // by worker
  std::vector<Clock> after_;                   // by step: what is known once it is completed
  WaitPlan plan_;
};

/*! \brief Return whether all bytes of an access have positions that can be computed with. */
bool IsValid(const Access& access) {
  constexpr int64_t kMost = int64_t{1} << 56;
  const auto within = [](int64_t number, int64_t least) {
    return least <= number && number <= kMost;
  };
  return within(access.begin, 0) && within(access.size, 1) && within(access.stride, 0) &&
         within(access.count, 1) && access.count <= kMost / std::max<int64_t>(access.stride, 1);
}

void Check(int64_t workers, const std::vector<int64_t>& levels, const std::vector<Access>& accesses,
           int64_t max_waits) {
  if (workers < 1) throw GraphError("there is no worker");
  if (max_waits < 0) throw GraphError("max_waits is negative");
  if (!std::is_sorted(levels.begin(), levels.end())) throw GraphError("the levels decrease");
  const int64_t positions = static_cast<int64_t>(levels.size());
  for (const Access& access : accesses) {
    if (access.position < 0 || access.position >= positions || access.worker < 0 ||
        access.worker >= workers) {
      throw GraphError("an access belongs to no step");
    }
    if (!IsValid(access)) throw GraphError("an access has no bytes, or too many");
  }
}

}  // namespace

bool Overlap(const Access& a, const Access& b) {
  if (a.memory != b.memory || a.begin >= End(b) || b.begin >= End(a)) return false;
  const int64_t stride = a.count > 1 ? a.stride : b.stride;
  const bool alike = a.count == 1 || b.count == 1 || a.stride == b.stride;
  if (!alike || stride == 0) return true;  // the runs may lie between each other: not looked at
  // A run of b lies t strides and ``distance`` bytes after one of a: -b.size < distance < a.size.
  const int64_t distance = b.begin - a.begin;
  const int64_t first = FloorDivide(-b.size - distance, stride) + 1;
  const int64_t last = -FloorDivide(distance - a.size, stride) - 1;
  return std::max(first, 1 - a.count) <= std::min(last, b.count - 1);
}

WaitPlan PlanWaits(int64_t workers, const std::vector<int64_t>& levels,
                   const std::vector<Access>& accesses, int64_t max_waits) {
  Check(workers, levels, accesses, max_waits);
  if (workers > kMaxWorkers) {
    WaitPlan plan;
    for (size_t position = 1; position < levels.size(); ++position) {
      if (levels[position] > levels[position - 1]) plan.barriers.push_back(position);
    }
    return plan;
  }
  return Planner(workers, levels, accesses).Run(levels, max_waits);
}

}  // namespace tvm_ios
