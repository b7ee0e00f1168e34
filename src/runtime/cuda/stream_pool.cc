// SPDX-License-Identifier: Apache-2.0
#include "runtime/cuda/stream_pool.h"

#include <tvm/ffi/error.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include "runtime/cuda/scopes.h"

namespace tvm_ios {
namespace cuda {
namespace {

/*! \brief Move the last count elements, or all if there are fewer, in their order. */
template <typename T>
void MoveLast(std::vector<T>& from, size_t count, std::vector<T>& to) {
  const auto begin = from.end() - static_cast<std::ptrdiff_t>(std::min(count, from.size()));
  to.insert(to.end(), std::make_move_iterator(begin), std::make_move_iterator(from.end()));
  from.erase(begin, from.end());
}

size_t Missing(size_t wanted, size_t present) { return wanted - std::min(wanted, present); }

/*! \brief The streams and events of threads that have ended. */
class SpareStreams {
 public:
  static SpareStreams& Get() {
    // Never destroyed: threads may end after static objects are destroyed.
    static SpareStreams& spare = *std::make_unique<SpareStreams>().release();
    return spare;
  }

  void Put(int device_id, IdleStreams idle) {
    const std::lock_guard<std::mutex> lock(mutex_);
    IdleStreams& mine = by_device_[device_id];
    MoveLast(idle.streams, idle.streams.size(), mine.streams);
    MoveLast(idle.events, idle.events.size(), mine.events);
  }

  /*! \brief Fill idle up to the given numbers, as far as the spare ones suffice. */
  void Take(int device_id, size_t num_streams, size_t num_events, IdleStreams& idle) {
    const std::lock_guard<std::mutex> lock(mutex_);
    IdleStreams& mine = by_device_[device_id];
    MoveLast(mine.streams, Missing(num_streams, idle.streams.size()), idle.streams);
    MoveLast(mine.events, Missing(num_events, idle.events.size()), idle.events);
  }

 private:
  std::mutex mutex_;
  std::map<int, IdleStreams> by_device_;
};

/*! \brief The idle streams of one host thread. */
class ThreadStreams {
 public:
  static IdleStreams& Of(int device_id) {
    static thread_local ThreadStreams streams;
    return streams.by_device_[device_id];
  }

  ~ThreadStreams() {
    for (auto& [device_id, idle] : by_device_) SpareStreams::Get().Put(device_id, std::move(idle));
  }

 private:
  std::map<int, IdleStreams> by_device_;
};

void MakeMissing(Stream main, size_t num_streams, size_t num_events, IdleStreams& idle) {
  TVM_FFI_ICHECK(!IsCapturing(main))
      << "a stage is captured that has not run on this thread before: there are no streams for it";
  const RelaxedScope relaxed;
  while (idle.streams.size() < num_streams) idle.streams.push_back(MakeStream());
  while (idle.events.size() < num_events) idle.events.push_back(MakeEvent(kEventDisableTiming));
}

}  // namespace

StreamLease::StreamLease(int device_id, Stream main, size_t num_streams, size_t num_marks)
    : idle_(ThreadStreams::Of(device_id)) {
  const size_t num_events = num_streams + 1 + num_marks;
  const auto complete = [&] {
    return idle_.streams.size() >= num_streams && idle_.events.size() >= num_events;
  };
  if (!complete()) SpareStreams::Get().Take(device_id, num_streams, num_events, idle_);
  if (!complete()) MakeMissing(main, num_streams, num_events, idle_);
  MoveLast(idle_.streams, num_streams, borrowed_.streams);
  MoveLast(idle_.events, num_events, borrowed_.events);
}

StreamLease::~StreamLease() {
  MoveLast(borrowed_.streams, borrowed_.streams.size(), idle_.streams);
  MoveLast(borrowed_.events, borrowed_.events.size(), idle_.events);
}

}  // namespace cuda
}  // namespace tvm_ios
