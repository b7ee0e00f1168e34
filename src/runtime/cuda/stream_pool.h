// SPDX-License-Identifier: Apache-2.0
/*!
 * \file stream_pool.h
 * \brief Streams and events that stages borrow, so that none is created while a graph is captured.
 *
 * Each host thread has its own, per device. A stream that a capture has forked belongs to the
 * capture until it ends, which is after the stage that forked it has returned, so no other thread
 * may get it. Moreover, the streams that a thread's warm-up has created are available for its
 * capture, whatever other threads do meanwhile. When a thread ends, other threads take over its
 * streams.
 */
#ifndef TVM_IOS_RUNTIME_CUDA_STREAM_POOL_H_
#define TVM_IOS_RUNTIME_CUDA_STREAM_POOL_H_

#include <cstddef>
#include <vector>

#include "runtime/cuda/handles.h"

namespace tvm_ios {
namespace cuda {

/*! \brief Streams and events that are not in use. */
struct IdleStreams {
  std::vector<StreamHandle> streams;
  std::vector<EventHandle> events;
};

/*! \brief The streams that a stage borrows from its thread; the destructor returns them. */
class StreamLease {
 public:
  /*!
   * \brief Borrow num_streams side streams, an event for each, one more for the fork, and one for
   *  each of num_marks calls that others wait for.
   *
   * The device's context must be current. Missing streams are created, except while main is
   * captured: the stage must have run once before, on the same thread.
   *
   * \param main The stream that the side streams will be forked from.
   * \throw DeviceError if the device has no room for more streams.
   */
  StreamLease(int device_id, Stream main, size_t num_streams, size_t num_marks);
  ~StreamLease();
  StreamLease(const StreamLease&) = delete;
  StreamLease& operator=(const StreamLease&) = delete;

  size_t num_streams() const { return borrowed_.streams.size(); }
  Stream stream(size_t i) const { return borrowed_.streams[i].get(); }
  /*! \brief The event that marks the end of stream i. */
  Event done(size_t i) const { return borrowed_.events[i].get(); }
  Event fork() const { return borrowed_.events[num_streams()].get(); }
  /*! \brief The event of the i-th call that others wait for. */
  Event mark(size_t i) const { return borrowed_.events[num_streams() + 1 + i].get(); }

 private:
  IdleStreams& idle_;  // of this thread and device
  IdleStreams borrowed_;
};

}  // namespace cuda
}  // namespace tvm_ios
#endif  // TVM_IOS_RUNTIME_CUDA_STREAM_POOL_H_
