// SPDX-License-Identifier: Apache-2.0
#include "runtime/cuda/timing.h"

#include <tvm/ffi/error.h>
#include <tvm/ffi/extra/c_env_api.h>

#include "runtime/cuda/capture.h"
#include "runtime/cuda/scopes.h"

namespace tvm_ios {
namespace cuda {

namespace ffi = ::tvm::ffi;

namespace {

constexpr double kMillisecondsPerSecond = 1e3;

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
  graph = CaptureGraph(place.stream(), [&] {
    for (int64_t run = 0; run < number; ++run) stage.Run();
  });
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
