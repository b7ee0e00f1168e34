// SPDX-License-Identifier: Apache-2.0
#include "runtime/cuda/capture.h"

namespace tvm_ios {
namespace cuda {
namespace {

/*! \brief A capture; the destructor ends it if it is still active. */
class Capture {
 public:
  explicit Capture(Stream stream) : stream_(stream) {
    Driver::Get().cuStreamBeginCapture(stream, kCaptureThreadLocal);
  }
  ~Capture() {
    if (ended_) return;
    Graph graph = nullptr;
    Driver::Get().cuStreamEndCapture.Try(stream_, &graph);
    const GraphHandle unused(graph);
  }
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;

  GraphHandle End() {
    ended_ = true;
    Graph graph = nullptr;
    Driver::Get().cuStreamEndCapture(stream_, &graph);
    return GraphHandle(graph);
  }

 private:
  const Stream stream_;
  bool ended_{false};
};

}  // namespace

GraphExecHandle CaptureGraph(Stream stream, const std::function<void()>& issue) {
  Capture capture(stream);
  issue();
  const GraphHandle graph = capture.End();
  GraphExec exec = nullptr;
  Driver::Get().cuGraphInstantiateWithFlags(&exec, graph.get(), 0);
  return GraphExecHandle(exec);
}

}  // namespace cuda
}  // namespace tvm_ios
