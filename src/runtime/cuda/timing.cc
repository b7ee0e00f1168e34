// SPDX-License-Identifier: Apache-2.0
#include "runtime/cuda/timing.h"

#include <tvm/ffi/error.h>
#include <tvm/ffi/extra/c_env_api.h>

#include "runtime/arguments.h"
#include "runtime/cuda/capture.h"
#include "runtime/cuda/scopes.h"

namespace tvm_ios {
namespace cuda {

namespace ffi = ::tvm::ffi;

namespace {

constexpr double kMillisecondsPerSecond = 1e3;

void CheckFiller(const ffi::Tensor& memory, int device_id) {
  TVM_IOS_REQUIRE(memory.device().device_type == kDLCUDA && memory.device().device_id == device_id,
                  ValueError)
      << "the filler is not on the CUDA device of the stages";
  TVM_IOS_REQUIRE(memory.IsContiguous(), ValueError) << "the filler must be contiguous";
}

/*! \brief Evict the contents of the device's caches. */
void Fill(const ffi::Tensor& memory, Stream stream) {
  const size_t bytes = ffi::GetDataSize(memory.numel(), memory.dtype());
  Driver::Get().cuMemsetD8Async(memory.data_ptr(), 0, bytes, stream);
}

/*! \brief Return the milliseconds that a launch of the graph takes. */
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

std::vector<double> Time(const std::vector<Stage>& runs, int64_t repeat,
                         const ffi::Optional<ffi::Tensor>& filler) {
  CheckStages(runs, repeat);
  const Driver& driver = Driver::Get();
  const int device_id = runs[0].device_id();
  if (filler.has_value()) CheckFiller(*filler, device_id);
  const ContextScope context(device_id);
  const EventHandle begin = MakeEvent(kEventDefault);
  const EventHandle end = MakeEvent(kEventDefault);
  GraphExecHandle graph;  // destroyed after the workplace has finished
  const Workplace place;
  StreamScope current(device_id);
  driver.cuStreamSynchronize(current.original());  // waits for the work that fills the tensors
  current.Set(place.stream());
  runs[0].Run();
  graph = CaptureGraph(place.stream(), [&] {
    for (const Stage& run : runs) run.Run();
  });
  driver.cuGraphLaunch(graph.get(), place.stream());
  std::vector<double> seconds;
  for (int64_t i = 0; i < repeat; ++i) {
    if (filler.has_value()) Fill(filler.value(), place.stream());
    const double launch = TimeLaunch(graph.get(), place.stream(), begin.get(), end.get());
    seconds.push_back(launch / kMillisecondsPerSecond / static_cast<double>(runs.size()));
    if (TVMFFIEnvCheckSignals() != 0) throw ffi::EnvErrorAlreadySet();
  }
  return seconds;
}

}  // namespace cuda
}  // namespace tvm_ios
