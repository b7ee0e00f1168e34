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
#include <optional>
#include <utility>
#include <vector>

#include "search/candidate.h"
#include "support/bitset.h"
#include "support/intern_table.h"

namespace tvm_ios {

/*!
 * \brief The prices of the candidates that searches of one graph have interned, and a floor for
 * each operator.
 *
 * Candidates keep their numbers from one search to the next, each of which has prices of its own.
 *
 * A stage costs at least the sum of its operators' floors. Where the price of a merged stage is
 * lower, the floors of its operators are reduced in proportion. Where that of another stage is
 * lower, all floors are: stages of unknown price may be as good as the best one that is known.
 */
template <typename Bits>
class PriceTable {
 public:
  /*! \brief Make an empty table. */
  explicit PriceTable(std::vector<double> floors)
      : given_floors_(std::move(floors)), floors_(given_floors_), expected_(given_floors_) {}

  /*!
   * \brief Begin a search that has interned no candidate.
   * \param seconds The prices of the first candidates. Those of the others are asked for.
   * \throw CostError for more prices than candidates, or negative or NaN ones.
   */
  void Begin(const std::vector<double>& seconds) {
    if (seconds.size() > candidates_.size()) CheckNumLatencies(seconds.size(), candidates_.size());
    floors_ = expected_ = given_floors_;
    scale_ = 1;
    seconds_.clear();
    interned_.assign(candidates_.size(), false);
    num_interned_ = 0;
    Price(seconds);
  }

  /*! \brief Return the number of candidates of all searches. */
  size_t size() const { return candidates_.size(); }

  /*! \brief Return the number of candidates that have a price. */
  size_t num_priced() const { return seconds_.size(); }

  /*! \brief Return the number of candidates that this search has interned. */
  size_t num_interned() const { return num_interned_; }

  const SetCandidate<Bits>& candidate(uint32_t id) const { return candidates_[id]; }

  /*!
   * \brief Intern a candidate in this search and return its number; nothing if it would be one more
   * than the limit of this search.
   */
  std::optional<uint32_t> Intern(const Bits& ops, Strategy strategy, size_t limit) {
    const std::optional<uint32_t> id = candidates_.Find({ops, strategy});
    if (id && interned_[*id]) return id;
    if (num_interned_ >= limit) return std::nullopt;
    return Intern(ops, strategy);
  }
  uint32_t Intern(const Bits& ops, Strategy strategy) {
    const auto [id, is_new] = candidates_.Intern({ops, strategy});
    if (is_new) interned_.push_back(false);
    if (interned_[id]) return id;
    interned_[id] = true;
    ++num_interned_;
    if (id < seconds_.size()) ReduceFloors(candidates_[id], seconds_[id]);
    return id;
  }

  /*! \brief Return the candidates from a number on. */
  CandidateBatch Batch(size_t begin) const {
    CandidateBatch batch{NumWords(floors_.size()), {}, {}};
    for (size_t id = begin; id < candidates_.size(); ++id) Append(candidates_[id], &batch);
    return batch;
  }

  /*!
   * \brief Set the prices of the next candidates that have none.
   * \throw CostError for negative or NaN prices.
   */
  void Price(const std::vector<double>& seconds) {
    for (double price : seconds) {
      const SetCandidate<Bits>& candidate = candidates_[seconds_.size()];
      CheckLatency(candidate, price);
      ReduceExpected(candidate, price);
      if (interned_[seconds_.size()]) ReduceFloors(candidate, price);
      seconds_.push_back(price);
    }
  }

  /*! \brief The price of a candidate that was asked for. */
  double operator[](uint32_t id) const { return seconds_[id]; }

  /*! \brief Return the sum of the operators' floors: no stages of them cost less. */
  double Floor(const Bits& ops) const { return scale_ * Sum(floors_, ops); }

  /*! \brief Return about what stages of the operators cost at least; not a bound. */
  double Expected(const Bits& ops) const { return Sum(expected_, ops); }

  /*! \brief Declare, before a search, that nothing is known about an operator's least cost. */
  void RemoveFloor(int op) { given_floors_[op] = 0; }

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

  /*! \brief Reduce what operators are expected to cost, by any price that is known. */
  void ReduceExpected(const SetCandidate<Bits>& candidate, double seconds) {
    const double share = Share(seconds, Sum(expected_, candidate.ops));
    for (int op : candidate.ops) expected_[op] *= share;
  }

  /*! \brief Reduce the floors, by the price of a stage that this search has interned. */
  void ReduceFloors(const SetCandidate<Bits>& candidate, double seconds) {
    const double share = Share(seconds, Sum(floors_, candidate.ops));
    if (candidate.strategy != Strategy::kMerge) {
      scale_ = std::min(scale_, share);
    } else {
      for (int op : candidate.ops) floors_[op] *= share;
    }
  }

  std::vector<double> given_floors_;  // by operator
  std::vector<double> floors_;        // the same, to be scaled
  std::vector<double> expected_;      // the same, reduced one by one
  double scale_{1};
  InternTable<SetCandidate<Bits>> candidates_;
  std::vector<double> seconds_;  // by candidate
  std::vector<bool> interned_;   // by candidate, in this search
  size_t num_interned_{0};
};

}  // namespace tvm_ios
#endif  // TVM_IOS_SEARCH_PRICE_TABLE_H_
