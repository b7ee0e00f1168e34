// SPDX-License-Identifier: Apache-2.0
#ifndef TVM_IOS_TESTS_CPP_FIND_SCHEDULE_H_
#define TVM_IOS_TESTS_CPP_FIND_SCHEDULE_H_

#include "search/dp.h"

namespace tvm_ios {

/*! \brief Explores and solves; ``cost`` gives the latencies of a batch of candidates. */
template <typename Cost>
SearchResult FindSchedule(const Dag& dag, const SearchOptions& options, const Cost& cost,
                          const Interrupt& interrupt) {
  const auto space = Explore(dag, options, interrupt);
  return space->Solve(cost(space->Candidates()));
}

}  // namespace tvm_ios
#endif  // TVM_IOS_TESTS_CPP_FIND_SCHEDULE_H_
