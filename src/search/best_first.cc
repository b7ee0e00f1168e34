// SPDX-License-Identifier: Apache-2.0
#include "search/best_first.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <exception>
#include <future>
#include <set>
#include <string>

#include "search/best_first_search.h"
#include "search/dispatch.h"
#include "support/error.h"

namespace tvm_ios {
namespace {

void CheckFloors(const Dag& dag, const std::vector<double>& floors) {
  if (floors.size() != static_cast<size_t>(dag.num_ops())) {
    throw OptionError("there are " + std::to_string(floors.size()) + " floors for " +
                      std::to_string(dag.num_ops()) + " operators");
  }
  for (double floor : floors) {
    if (floor >= 0 && std::isfinite(floor)) continue;
    throw OptionError("a floor must be a finite number of at least 0, got " +
                      std::to_string(floor));
  }
}

/*! \brief An exception that ends a search because another one has failed. */
struct Cancelled {};

/*! \brief Searches that several threads advance, each of them one at a time. */
class SideBySide {
 public:
  explicit SideBySide(const std::vector<BestFirst*>& searches)
      : searches_(searches), ended_(searches.size()) {}

  /*! \brief Advance searches until all are taken. */
  void Work(const Interrupt& interrupt) {
    const Interrupt own = [&] {
      if (failed_) throw Cancelled{};
      if (interrupt) interrupt();
    };
    try {
      for (size_t i = next_++; i < searches_.size(); i = next_++) {
        ended_[i] = searches_[i]->Advance(own);
      }
    } catch (...) {
      if (!failed_.exchange(true)) error_ = std::current_exception();
    }
  }

  /*! \brief Return which searches have ended, once no thread works any more. */
  std::vector<bool> Ended() const {
    if (error_) std::rethrow_exception(error_);
    return {ended_.begin(), ended_.end()};
  }

 private:
  const std::vector<BestFirst*>& searches_;
  std::vector<char> ended_;  // not bits, which threads cannot write side by side
  std::atomic<size_t> next_{0};
  std::atomic<bool> failed_{false};
  std::exception_ptr error_;  // the first
};

}  // namespace

std::unique_ptr<BestFirst> MakeBestFirst(const Dag& dag, const SearchOptions& options,
                                         const std::vector<double>& floors,
                                         const SearchBudget& budget) {
  CheckOptions(dag, options);
  CheckFloors(dag, floors);
  if (!(budget.seconds >= 0)) {
    throw OptionError("the time for a search must be at least 0 seconds");
  }
  return DispatchWidth(dag.num_ops(), [&](auto empty) -> std::unique_ptr<BestFirst> {
    return std::make_unique<BestFirstOfWidth<decltype(empty)>>(dag, options, floors, budget);
  });
}

std::vector<bool> AdvanceAll(const std::vector<BestFirst*>& searches, size_t num_threads,
                             const Interrupt& interrupt) {
  if (std::set<BestFirst*>(searches.begin(), searches.end()).size() < searches.size()) {
    throw OptionError("a search cannot advance twice at the same time");
  }
  SideBySide work(searches);
  std::vector<std::future<void>> others;
  for (size_t i = 1; i < std::min(num_threads, searches.size()); ++i) {
    others.push_back(std::async(std::launch::async, [&] { work.Work({}); }));
  }
  work.Work(interrupt);
  for (std::future<void>& other : others) other.get();
  return work.Ended();
}

BoundedResult FindBestFirst(const Dag& dag, const SearchOptions& options,
                            const std::vector<double>& floors, const Schedule& known,
                            const SearchBudget& budget, const Prices& prices,
                            const Interrupt& interrupt) {
  const std::unique_ptr<BestFirst> search = MakeBestFirst(dag, options, floors, budget);
  search->Begin({}, known, /*priced_only=*/false);
  while (!search->Advance(interrupt))
    search->Price(prices(search->Candidates(search->num_priced())));
  return search->Result();
}

}  // namespace tvm_ios
