// SPDX-License-Identifier: Apache-2.0
/*!
 * \file candidate.h
 * \brief Candidate stages, one by one and in batches.
 */
#ifndef TVM_IOS_SEARCH_CANDIDATE_H_
#define TVM_IOS_SEARCH_CANDIDATE_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "search/schedule.h"
#include "support/error.h"

namespace tvm_ios {

/*! \brief Distinct stages whose latencies a search needs. */
struct CandidateBatch {
  /*! \brief The number of 64-bit words of a set of operators. */
  size_t words;
  /*!
   * \brief Candidate i is the set in words [i * words, (i + 1) * words); bit k of it is operator k.
   */
  std::vector<uint64_t> ops;
  std::vector<int32_t> strategies;

  size_t size() const { return strategies.size(); }
};

/*! \brief A candidate stage, in a set of operators of one width. */
template <typename Bits>
struct SetCandidate {
  Bits ops;
  Strategy strategy;

  uint64_t Hash() const { return ops.Hash() ^ static_cast<uint64_t>(strategy); }
  friend bool operator==(const SetCandidate& a, const SetCandidate& b) {
    return a.strategy == b.strategy && a.ops == b.ops;
  }
};

template <typename Bits>
void Append(const SetCandidate<Bits>& candidate, CandidateBatch* batch) {
  const auto& words = candidate.ops.words();
  batch->ops.insert(batch->ops.end(), words.begin(),
                    words.begin() + static_cast<std::ptrdiff_t>(batch->words));
  batch->strategies.push_back(static_cast<int32_t>(candidate.strategy));
}

/*! \throw CostError unless there is one latency for each of the stages. */
inline void CheckNumLatencies(size_t num_latencies, size_t num_stages) {
  if (num_latencies == num_stages) return;
  throw CostError("there are " + std::to_string(num_latencies) + " latencies for " +
                  std::to_string(num_stages) + " stages");
}

/*! \throw CostError for a latency that is negative or NaN. */
template <typename Bits>
void CheckLatency(const SetCandidate<Bits>& candidate, double latency) {
  if (latency >= 0) return;  // false for NaN
  std::string ops;
  for (int op : candidate.ops) ops += (ops.empty() ? "" : ", ") + std::to_string(op);
  const std::string strategy = candidate.strategy == Strategy::kMerge ? "merge" : "concurrent";
  throw CostError("the latency of the stage " + strategy + " {" + ops + "} is " +
                  std::to_string(latency) + "; return seconds, or infinity if it cannot run");
}

}  // namespace tvm_ios
#endif  // TVM_IOS_SEARCH_CANDIDATE_H_
