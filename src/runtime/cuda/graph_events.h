// SPDX-License-Identifier: Apache-2.0
/*!
 * \file graph_events.h
 * \brief Events inside a CUDA graph, which tell when each launch of it came by.
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
 * What orders kernels in a capture are events, too, but these leave nothing behind in the graph,
 * and have no time. A node has, after every launch. The graph must be destroyed first.
 */
class GraphEvents {
 public:
  /*! \brief Makes so many events; the device's context must be current. */
  explicit GraphEvents(size_t count);
  GraphEvents(const GraphEvents&) = delete;
  GraphEvents& operator=(const GraphEvents&) = delete;

  /*! \brief Puts the next event behind what the stream, which is captured, has been given. */
  void Record(Stream stream);

  /*!
   * \brief Seconds from the first event to each of the others, in the last launch of the graph.
   *
   * The launch must be done. CUDA's events tell times to half a microsecond.
   */
  std::vector<double> Seconds() const;

 private:
  std::vector<EventHandle> events_;
  size_t recorded_{0};
};

}  // namespace cuda
}  // namespace tvm_ios
#endif  // TVM_IOS_RUNTIME_CUDA_GRAPH_EVENTS_H_
