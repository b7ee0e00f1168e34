// SPDX-License-Identifier: Apache-2.0
#include "runtime/cuda/timing.h"

#include <tvm/ffi/error.h>
#include <tvm/ffi/extra/c_env_api.h>

#include "runtime/cuda/handles.h"
#include "runtime/cuda/scopes.h"

namespace tvm_ios {
namespace cuda {

namespace ffi = ::tvm::ffi;

namespace {

constexpr double kMillisecondsPerSecond = 1e3;

/*! \brief A stream of its own, which has nothing left to do when it is destroyed. */
class Workplace {
 public:
  Workplace() : stream_(MakeStream()) {}
  ~Workplace() { Driver::Get().cuStreamSynchronize.Try(stream_.get()); }
  Workplace(const Workplace&) = delete;
  Workplace& operator=(const Workplace&) = delete;

  Stream stream() const { return stream_.get(); }

 private:
  const StreamHandle stream_;
};

/*! \brief A capture, which ends at the latest when it is destroyed. */
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

GraphExecHandle CaptureRuns(const Stage& stage, int64_t number, Stream stream) {
  Capture capture(stream);
  for (int64_t run = 0; run < number; ++run) stage.Run();
  const GraphHandle graph = capture.End();
  GraphExec exec = nullptr;
  Driver::Get().cuGraphInstantiateWithFlags(&exec, graph.get(), 0);
  return GraphExecHandle(exec);
}

/*! \brief Milliseconds that a launch of the graph takes. */
double TimeLaunch(GraphExec graph, Stream stream, Event begin, Event end) {
  const Driver& driver = Driver::Get();
  driver.cuEventRecord(begin, stream);
  driver.cuGraphLaunch(graph, stream);
  driver.cuEventRecord(end, stream);
  driver.cuEventSynchronize(end);
  float milliseconds = 0;
  driver.cuEventElapsedTime(&milliseconds, begin, end);
  return milliseconds;
}

}  // namespace

std::vector<double> Time(const Stage& stage, int64_t number, int64_t repeat) {
  TVM_FFI_CHECK(number >= 1 && repeat >= 1, ValueError) << "number and repeat must be at least 1";
  const Driver& driver = Driver::Get();
  const ContextScope context(stage.device_id());
  const EventHandle begin = MakeEvent(kEventDefault);
  const EventHandle end = MakeEvent(kEventDefault);
  GraphExecHandle graph;  // destroyed when the workplace is done with it
  const Workplace place;
  StreamScope current(stage.device_id());
  driver.cuStreamSynchronize(current.original());  // what fills the tensors
  current.Set(place.stream());
  stage.Run();
  graph = CaptureRuns(stage, number, place.stream());
  driver.cuGraphLaunch(graph.get(), place.stream());
  std::vector<double> seconds;
  for (int64_t i = 0; i < repeat; ++i) {
    const double launch = TimeLaunch(graph.get(), place.stream(), begin.get(), end.get());
    seconds.push_back(launch / kMillisecondsPerSecond / static_cast<double>(number));
    if (TVMFFIEnvCheckSignals() != 0) throw ffi::EnvErrorAlreadySet();
  }
  return seconds;
}

}  // namespace cuda
}  // namespace tvm_ios
