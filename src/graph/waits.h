// SPDX-License-Identifier: Apache-2.0
/*!
 * \file waits.h
 * \brief Which steps of other workers a step has to wait for.
 *
 * The workers of a launch run the same positions in the same order. What one worker does at one
 * position is a step. Positions belong to levels; steps of one level do not depend on each other.
 * At a barrier all workers wait for all others. But a step only has to wait for the steps of lower
 * levels that write what it reads or writes, or that read what it writes ("point-to-point
 * synchronization").
 */
#ifndef TVM_IOS_GRAPH_WAITS_H_
#define TVM_IOS_GRAPH_WAITS_H_

#include <cstdint>
#include <vector>

namespace tvm_ios {

/*! \brief Bytes of a memory that a step accesses: runs of equal size at equal distances. */
struct Access {
  int64_t position;
  int64_t worker;
  int64_t memory;
  int64_t begin;
  int64_t size;
  int64_t stride;
  int64_t count;
  bool writes;
};

/*! \brief A step begins when another worker has completed so many of its own. */
struct Wait {
  int64_t position;
  int64_t worker;
  int64_t other;
  int64_t completed;
};

/*! \brief How the steps of a launch wait for each other. */
struct WaitPlan {
  /*! \brief Positions before which all workers wait at a barrier; each is the first of its level.
   */
  std::vector<int64_t> barriers;
  /*! \brief By position and worker. */
  std::vector<Wait> waits;
};

/*! \brief Return whether some byte belongs to both accesses. */
bool Overlap(const Access& a, const Access& b);

/*!
 * \brief Return what the steps have to wait for, without waits that follow from other ones.
 *
 * A level in which workers would have to look at many counters begins with a barrier instead, so
 * that the traffic of counters between cores stays within bounds.
 *
 * \param workers At least one. With more than 128, all levels begin with a barrier.
 * \param levels The level of each position, not decreasing.
 * \param accesses What the steps read and write, in any order.
 * \param max_waits Waits of a level, divided by the workers, above which it begins with a barrier.
 * \throw GraphError for numbers that are out of range.
 */
WaitPlan PlanWaits(int64_t workers, const std::vector<int64_t>& levels,
                   const std::vector<Access>& accesses, int64_t max_waits);

}  // namespace tvm_ios
#endif  // TVM_IOS_GRAPH_WAITS_H_
