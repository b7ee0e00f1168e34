// SPDX-License-Identifier: Apache-2.0
#include "runtime/cuda/trace.h"

#include <tvm/ffi/error.h>
#include <tvm/ffi/extra/c_env_api.h>

#include "runtime/cuda/capture.h"
#include "runtime/cuda/graph_events.h"
#include "runtime/cuda/scopes.h"

namespace tvm_ios {
namespace cuda {

namespace ffi = ::tvm::ffi;

namespace {

size_t CountCalls(const std::vector<Stage>& stages) {
  size_t calls = 0;
  for (const Stage& stage : stages) calls += stage.num_calls();
  return calls;
}

}  // namespace

std::vector<double> Trace(const std::vector<Stage>& stages, int64_t repeat) {
  CheckStages(stages, repeat);
  const Driver& driver = Driver::Get();
  const int device_id = stages[0].device_id();
  const ContextScope context(device_id);
  GraphEvents events(1 + 2 * CountCalls(stages));  // destroyed after the graph
  GraphExecHandle graph;                           // destroyed after the workplace has finished
  const Workplace place;
  StreamScope current(device_id);
  driver.cuStreamSynchronize(current.original());  // waits for the work that fills the tensors
  current.Set(place.stream());
  for (const Stage& stage : stages) stage.Run();
  graph = CaptureGraph(place.stream(), [&] {
    events.Record(place.stream());
    for (const Stage& stage : stages) stage.Run(&events);
  });
  driver.cuGraphLaunch(graph.get(), place.stream());
  std::vector<double> seconds;
  for (int64_t i = 0; i < repeat; ++i) {
    driver.cuGraphLaunch(graph.get(), place.stream());
    driver.cuStreamSynchronize(place.stream());
    const std::vector<double> run = events.Seconds();
    seconds.insert(seconds.end(), run.begin(), run.end());
    if (TVMFFIEnvCheckSignals() != 0) throw ffi::EnvErrorAlreadySet();
  }
  return seconds;
}

}  // namespace cuda
}  // namespace tvm_ios
