// SPDX-License-Identifier: Apache-2.0
#include "runtime/cuda/cudnn_handles.h"

#include <tvm/ffi/error.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "runtime/cuda/scopes.h"

namespace tvm_ios {
namespace cuda {
namespace {

constexpr size_t kMaxHandles = 8;  // per thread and device: the streams of a wide stage

struct BoundHandle {
  CudnnHandle handle;
  Stream stream;  // the stream of its last use
};

using Handles = std::vector<BoundHandle>;  // the most recently used one is the last

/*! \brief The handles of threads that have ended. */
class SpareHandles {
 public:
  static SpareHandles& Get() {
    // Never destroyed: threads may end after static objects are destroyed.
    static SpareHandles& spare = *std::make_unique<SpareHandles>().release();
    return spare;
  }

  void Put(int device_id, Handles handles) {
    const std::lock_guard<std::mutex> lock(mutex_);
    Handles& mine = by_device_[device_id];
    std::move(handles.begin(), handles.end(), std::back_inserter(mine));
  }

  /*! \brief Move one to the handles, if there is one. */
  bool Take(int device_id, Handles& handles) {
    const std::lock_guard<std::mutex> lock(mutex_);
    Handles& mine = by_device_[device_id];
    if (mine.empty()) return false;
    handles.push_back(std::move(mine.back()));
    mine.pop_back();
    return true;
  }

 private:
  std::mutex mutex_;
  std::map<int, Handles> by_device_;
};

/*! \brief The handles of one host thread. */
class ThreadHandles {
 public:
  static Handles& Of(int device_id) {
    static thread_local ThreadHandles handles;
    return handles.by_device_[device_id];
  }

  ~ThreadHandles() {
    for (auto& [device_id, handles] : by_device_) {
      SpareHandles::Get().Put(device_id, std::move(handles));
    }
  }

 private:
  std::map<int, Handles> by_device_;
};

CudnnHandle MakeHandle() {
  const RelaxedScope relaxed;
  CudnnContext made = nullptr;
  Cudnn::Get().cudnnCreate(&made);
  return CudnnHandle(made);
}

/*! \brief Add a handle, if the thread's limit and the device allow it. */
void AddHandle(int device_id, Stream stream, Handles& handles) {
  if (handles.size() >= kMaxHandles || SpareHandles::Get().Take(device_id, handles)) return;
  if (!IsCapturing(stream)) {
    handles.push_back({MakeHandle(), stream});
  } else {
    TVM_FFI_ICHECK(!handles.empty())
        << "cuDNN is captured on a thread that has not used it before: there is no handle for it";
  }
}

}  // namespace

CudnnContext HandleFor(int device_id, Stream stream) {
  Handles& handles = ThreadHandles::Of(device_id);
  auto found = std::find_if(handles.begin(), handles.end(),
                            [&](const BoundHandle& bound) { return bound.stream == stream; });
  if (found == handles.end()) {
    const size_t before = handles.size();
    AddHandle(device_id, stream, handles);
    // The new one, or else the least recently used one.
    found = handles.size() > before ? std::prev(handles.end()) : handles.begin();
    found->stream = stream;
  }
  std::rotate(found, std::next(found), handles.end());
  Cudnn::Get().cudnnSetStream(handles.back().handle.get(), stream);
  return handles.back().handle.get();
}

}  // namespace cuda
}  // namespace tvm_ios
