// SPDX-License-Identifier: Apache-2.0
/*!
 * \file price_table.h
 * \brief The prices of candidate stages, asked for in batches, and what they bound from below.
 */
#ifndef TVM_IOS_SEARCH_PRICE_TABLE_H_
#define TVM_IOS_SEARCH_PRICE_TABLE_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "search/candidate.h"
#include "support/bitset.h"
#include "support/intern_table.h"

namespace tvm_ios {

/*! \brief A function that returns the seconds of each candidate of a batch. */
using Prices = std::function<std::vector<double>(const CandidateBatch& batch)>;

/*!
 * \brief The prices of the candidates that a search has met, and a floor for each operator.
 *
 * A stage costs at least the sum of its operators' floors. Where the price of a merged stage is
 * lower, the floors of its operators are lowered in proportion. Where that of another stage is
 * lower, all floors are: stages of unknown price may be as good as the best one that is known.
 */
template <typename Bits>
class PriceTable {
 public:
  /*! \brief Make an empty table. The function must outlive it. */
  PriceTable(std::vector<double> floors, const Prices& prices)
      : floors_(std::move(floors)), expected_(floors_), prices_(prices) {}

  /*! \brief Return the number of candidates, including those whose price is still to be asked. */
  size_t size() const { return candidates_.size(); }

  const SetCandidate<Bits>& candidate(uint32_t id) const { return candidates_[id]; }

  /*! \brief Return a candidate's number; Ask sets the price of a new one. */
  uint32_t Add(const Bits& ops, Strategy strategy) {
    return candidates_.Intern({ops, strategy}).first;
  }

  /*! \brief Return the number of a candidate that was added. */
  std::optional<uint32_t> Find(const Bits& ops, Strategy strategy) const {
    return candidates_.Find({ops, strategy});
  }

  /*!
   * \brief Ask for the prices of all new candidates.
   * \throw CostError for a wrong number of prices, or negative or NaN ones.
   */
  void Ask() {
    const size_t known = seconds_.size();
    if (known == candidates_.size()) return;
    CandidateBatch batch{NumWords(floors_.size()), {}, {}};
    for (size_t id = known; id < candidates_.size(); ++id) Append(candidates_[id], &batch);
    const std::vector<double> seconds = prices_(batch);
    CheckNumLatencies(seconds.size(), batch.size());
    for (size_t i = 0; i < seconds.size(); ++i) {
      CheckLatency(candidates_[known + i], seconds[i]);
      LowerFloors(candidates_[known + i], seconds[i]);
    }
    seconds_.insert(seconds_.end(), seconds.begin(), seconds.end());
  }

  /*! \brief The price of a candidate that was asked for. */
  double operator[](uint32_t id) const { return seconds_[id]; }

  /*! \brief Return the sum of the operators' floors: no stages of them cost less. */
  double Floor(const Bits& ops) const { return scale_ * Sum(floors_, ops); }

  /*! \brief Return about what stages of the operators cost at least; not a bound. */
  double Expected(const Bits& ops) const { return Sum(expected_, ops); }

  /*! \brief Declare that nothing is known about an operator's least cost. */
  void RemoveFloor(int op) { floors_[op] = expected_[op] = 0; }

 private:
  static double Sum(const std::vector<double>& values, const Bits& ops) {
    double sum = 0;
    for (int op : ops) sum += values[op];
    return sum;
  }

  /*! \brief Return a price as a share of a larger sum, rounded down; at most 1. */
  static double Share(double seconds, double sum) {
    return seconds >= sum ? 1.0 : seconds / sum * (1 - 1e-12);
  }

  void LowerFloors(const SetCandidate<Bits>& candidate, double seconds) {
    const double share = Share(seconds, Sum(floors_, candidate.ops));
    const double expected_share = Share(seconds, Sum(expected_, candidate.ops));
    for (int op : candidate.ops) {
      if (candidate.strategy == Strategy::kMerge) floors_[op] *= share;
      expected_[op] *= expected_share;
    }
    if (candidate.strategy != Strategy::kMerge) scale_ = std::min(scale_, share);
  }

  std::vector<double> floors_;    // by operator, to be scaled
  std::vector<double> expected_;  // by operator, lowered one by one
  double scale_{1};
  const Prices& prices_;
  InternTable<SetCandidate<Bits>> candidates_;
  std::vector<double> seconds_;  // by candidate
};

}  // namespace tvm_ios
#endif  // TVM_IOS_SEARCH_PRICE_TABLE_H_
