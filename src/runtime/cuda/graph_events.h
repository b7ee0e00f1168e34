// SPDX-License-Identifier: Apache-2.0
/*!
 * \file graph_events.h
 * \brief Events inside a CUDA graph that record when each launch reaches them.
 */
#ifndef TVM_IOS_RUNTIME_CUDA_GRAPH_EVENTS_H_
#define TVM_IOS_RUNTIME_CUDA_GRAPH_EVENTS_H_

#include <cstddef>
#include <vector>

#include "runtime/cuda/handles.h"

namespace tvm_ios {
namespace cuda {

/*!
 * \brief Events that are nodes of a graph, in the order in which they are recorded.
 *
 * The events that order kernels in a capture leave no node in the graph and have no time. An event
 * node has a time after every launch. Destroy the graph before these events.
 */
class GraphEvents {
 public:
  /*! \brief Create count events; the device's context must be current. */
  explicit GraphEvents(size_t count);
  GraphEvents(const GraphEvents&) = delete;
  GraphEvents& operator=(const GraphEvents&) = delete;

  /*! \brief Record the next event after the work issued so far on a captured stream. */
  void Record(Stream stream);

  /*!
   * \brief Return the seconds from the first event to each of the others, in the last launch of the
   * graph.
   *
   * The launch must be done. CUDA's events have a resolution of half a microsecond.
   */
  std::vector<double> Seconds() const;

 private:
  std::vector<EventHandle> events_;
  size_t recorded_{0};
};

}  // namespace cuda
}  // namespace tvm_ios
#endif  // TVM_IOS_RUNTIME_CUDA_GRAPH_EVENTS_H_
