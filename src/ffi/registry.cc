// SPDX-License-Identifier: Apache-2.0
/*!
 * \file registry.cc
 * \brief The core and the stage runners as TVM FFI objects and global functions.
 *
 * Bulk data is passed as tensors. A batch of candidates is uint64 [n, words] (the operators as
 * bits) and int32 [n] (the strategies); its latencies are float64 [n].
 */
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/error.h>
#include <tvm/ffi/extra/module.h>
#include <tvm/ffi/function.h>
#include <tvm/ffi/reflection/registry.h>
#include <tvm/ffi/string.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ffi/convert.h"
#include "ffi/functions.h"
#include "ffi/objects.h"
#include "ffi/source_digest.h"
#include "graph/components.h"
#include "graph/partition.h"
#include "graph/waits.h"
#include "runtime/arguments.h"
#include "runtime/cuda/cudnn.h"
#include "runtime/cuda/cudnn_convolution.h"
#include "runtime/cuda/describe.h"
#include "runtime/cuda/device_code.h"
#include "runtime/cuda/stage.h"
#include "runtime/describe.h"
#include "runtime/host_tensor.h"
#include "runtime/launch/launcher.h"
#include "runtime/launch/pool.h"
#include "runtime/watchdog.h"
#include "search/baselines.h"
#include "search/bounded.h"
#include "support/cerr_capture.h"
#include "support/error.h"

namespace tvm_ios {
namespace {

namespace refl = ::tvm::ffi::reflection;

DagRef MakeDag(int64_t num_ops, ffi::TensorView edges) {
  const int64_t* data = HostMatrix<int64_t>(edges, 2, kInt64, "edges");
  std::vector<Dag::Edge> pairs;
  for (int64_t i = 0; i < edges.size(0); ++i) pairs.emplace_back(data[2 * i], data[2 * i + 1]);
  return DagRef(Dag(num_ops, pairs));
}

ffi::Tensor DagEdges(DagRef dag) {
  std::vector<int64_t> edges;
  for (int op = 0; op < dag->dag.num_ops(); ++op) {
    for (int successor : dag->dag.successors(op)) {
      edges.push_back(op);
      edges.push_back(successor);
    }
  }
  return MakeTensor(edges, {dag->dag.num_edges(), 2}, kInt64);
}

/*!
 * \brief Plan the waits of a launch.
 * \param accesses int64 [n, 8]: position, worker, memory, begin, size, stride, count, writes.
 * \return The positions of barriers, int64 [b], and the waits, int64 [m, 4].
 */
ffi::Array<ffi::Tensor> PlanWaitsOf(int64_t workers, ffi::TensorView levels,
                                    ffi::TensorView accesses, int64_t max_waits) {
  const int64_t* row = HostMatrix<int64_t>(accesses, 8, kInt64, "accesses");
  std::vector<Access> found;
  for (int64_t i = 0; i < accesses.size(0); ++i, row += 8) {
    found.push_back({row[0], row[1], row[2], row[3], row[4], row[5], row[6], row[7] != 0});
  }
  const WaitPlan plan = PlanWaits(workers, Int64Vector(levels, "levels"), found, max_waits);
  std::vector<int64_t> waits;
  for (const Wait& wait : plan.waits) {
    waits.insert(waits.end(), {wait.position, wait.worker, wait.other, wait.completed});
  }
  return {MakeTensor(plan.barriers, {static_cast<int64_t>(plan.barriers.size())}, kInt64),
          MakeTensor(waits, {static_cast<int64_t>(plan.waits.size()), 4}, kInt64)};
}

ScheduleSpaceRef ExploreSchedules(DagRef dag, ffi::TensorView merge_class, Groups replacements,
                                  int64_t max_group_size, int64_t max_num_groups,
                                  int64_t max_transitions) {
  if (max_transitions < 1) throw OptionError("max_transitions must be at least 1");
  return ScheduleSpaceRef(
      Explore(dag->dag,
              {ToPruning(max_group_size, max_num_groups), Int64Vector(merge_class, "merge_class"),
               OperatorSets(replacements), static_cast<size_t>(max_transitions)},
              CheckSignals));
}

ffi::Array<ffi::Tensor> Candidates(ScheduleSpaceRef space) {
  return ToFfi(space->space->Candidates());
}

ResultTuple Solve(ScheduleSpaceRef space, ffi::TensorView latencies) {
  const SearchResult result = space->space->Solve(Doubles(latencies, "the latencies"));
  return ToFfi(result, result.latency, /*proved=*/true);
}

ffi::Tensor Through(ScheduleSpaceRef space, ffi::TensorView latencies) {
  const std::vector<double> through = space->space->Through(Doubles(latencies, "the latencies"));
  return MakeTensor(through, {static_cast<int64_t>(through.size())}, kFloat64);
}

/*! \brief The search with bounds, for StageModel's terms: times is float64 [n, 2]. */
ResultTuple FindBounded(DagRef dag, ffi::TensorView merge_class, double stage, double group,
                        ffi::TensorView times, const ffi::Function& merged, int64_t max_group_size,
                        int64_t max_num_groups, double seconds) {
  StageModel model{stage, group, {}, {}, {}};
  const double* row = HostMatrix<double>(times, 2, kFloat64, "times");
  for (int64_t i = 0; i < times.size(0); ++i, row += 2) {
    model.length.push_back(row[0]);
    model.work.push_back(row[1]);
  }
  model.merged = [&merged](const std::vector<int>& ops) {
    return merged(ToFfi(ops)).cast<double>();
  };
  const BoundedResult bounded = FindBoundedSchedule(
      dag->dag,
      {ToPruning(max_group_size, max_num_groups), Int64Vector(merge_class, "merge_class")}, model,
      seconds, CheckSignals);
  return ToFfi(bounded.result, bounded.lower_bound, bounded.proved);
}

ffi::Tensor ListEndings(DagRef dag, ffi::TensorView remaining, int64_t max_group_size,
                        int64_t max_num_groups) {
  return OpsTensor(Endings(dag->dag, Operators(remaining),
                           ToPruning(max_group_size, max_num_groups), CheckSignals));
}

int64_t CostOfBlocks(DagRef dag, Groups blocks, ffi::TensorView merge_class) {
  return PartitionCost(dag->dag, OperatorSets(blocks), Int64Vector(merge_class, "merge_class"));
}

template <typename Runner>
int64_t AddKernel(Runner runner, ffi::Module module, const ffi::String& name,
                  const ffi::Bytes& specs) {
  ffi::Optional<ffi::Function> function = module->GetFunction(name, /*query_imports=*/true);
  TVM_IOS_REQUIRE(function.has_value(), ValueError) << "the library has no function " << name;
  return runner->runner.kernels().Add(*function, specs);
}

/*!
 * \brief Arm the watchdog if the time limit is above 0: until it is destroyed, a crash or the limit
 * ends this process.
 */
std::optional<Watchdog> StartWatchdog(double limit) {
  TVM_IOS_REQUIRE(limit >= 0, ValueError) << "a time limit must be at least 0, got " << limit;
  if (limit > 0) return std::optional<Watchdog>(std::in_place, limit);
  return std::nullopt;
}

ffi::Bytes ToBytes(const std::vector<double>& numbers) {
  return ffi::Bytes(reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(double));
}

/*! \brief Time a stage within a time limit; 0 for none. */
ffi::Bytes TimeOnRunner(StageRunnerRef runner, const ffi::Bytes& program, const ffi::Bytes& stages,
                        const ffi::Bytes& calls, int64_t workers, int64_t repeat, double limit) {
  const std::optional<Watchdog> watchdog = StartWatchdog(limit);
  return ToBytes(runner->runner.Time(program, stages, calls, workers, repeat));
}

void RunCudaStage(ffi::PackedArgs args, ffi::Any* /*result*/) { cuda::Stage(args).Run(); }

void RunOnCudaRunner(CudaStageRunnerRef runner, const ffi::Bytes& stages, double limit) {
  const std::optional<Watchdog> watchdog = StartWatchdog(limit);
  runner->runner.Run(stages);
}

ffi::Bytes TimeOnCudaRunner(CudaStageRunnerRef runner, const ffi::Bytes& runs, int64_t repeat,
                            int64_t filler, double limit) {
  const std::optional<Watchdog> watchdog = StartWatchdog(limit);
  return ToBytes(runner->runner.Time(runs, repeat, filler));
}

ffi::Bytes TraceOnCudaRunner(CudaStageRunnerRef runner, const ffi::Bytes& stages, int64_t repeat,
                             double limit) {
  const std::optional<Watchdog> watchdog = StartWatchdog(limit);
  return ToBytes(runner->runner.Trace(stages, repeat));
}

void RunCudnnConvolution(ffi::PackedArgs args, ffi::Any* /*result*/) { cuda::RunConvolution(args); }

ffi::Array<ffi::Shape> CudnnAlgorithms(int64_t device_id, const ffi::Shape& problem) {
  ffi::Array<ffi::Shape> algorithms;
  for (const auto& [algorithm, workspace] : cuda::FindAlgorithms(device_id, problem)) {
    algorithms.push_back(ffi::Shape({algorithm, workspace}));
  }
  return algorithms;
}

TVM_FFI_STATIC_INIT_BLOCK() {
  refl::ObjectDef<DagObj>().def_ro("num_ops", &DagObj::num_ops, "Number of operators.");
  refl::ObjectDef<ScheduleSpaceObj>();

  Functions()
      .def("tvm_ios.MakeDag", MakeDag, "A graph from its edges, int64 [m, 2].")
      .def("tvm_ios.DagEdges", DagEdges, "The distinct edges of a graph, sorted, int64 [m, 2].")
      .def("tvm_ios.Explore", ExploreSchedules, "All schedules of a graph.")
      .def("tvm_ios.Candidates", Candidates,
           "The stages of a space: operators, uint64 [n, words], and strategies, int32 [n].")
      .def("tvm_ios.Solve", Solve, "A cheapest schedule by the candidates' latencies, float64 [n].")
      .def("tvm_ios.Through", Through,
           "The latency of the cheapest schedule with each candidate, float64 [n].")
      .def("tvm_ios.FindBounded", FindBounded,
           "A cheapest schedule by a cost that says what it is made of, or how far from it.")
      .def("tvm_ios.Endings", ListEndings, "The endings of a set of operators, uint64 [n, words].")
      .def("tvm_ios.Sequential", [](DagRef dag) { return ToFfi(SequentialSchedule(dag->dag)); })
      .def("tvm_ios.Greedy",
           [](DagRef dag, int64_t max_num_groups) {
             return ToFfi(GreedySchedule(dag->dag, max_num_groups));
           })
      .def("tvm_ios.Partition",
           [](DagRef dag, int64_t max_block_size, ffi::TensorView merge_class) {
             return ToFfi(Partition(dag->dag, max_block_size,
                                    Int64Vector(merge_class, "merge_class"), CheckSignals));
           })
      .def("tvm_ios.PartitionCost", CostOfBlocks, "The cost of the cuts between blocks.")
      .def("tvm_ios.PlanWaits", PlanWaitsOf,
           "Barriers, int64 [b], and waits between workers, int64 [m, 4].")
      .def("tvm_ios.Components", [](DagRef dag, ffi::TensorView ops) {
        return ToFfi(Components(dag->dag, Operators(ops)));
      });

  Functions()
      .def(
          "tvm_ios.runtime.UseHelpers",
          [](const ffi::Function& set_launcher, int64_t max_threads) {
            CheckRange(max_threads, 1, HelperPool::kMaxThreads, "the number of threads");
            HelperPool::Get().SetMaxThreads(static_cast<int32_t>(max_threads));
            set_launcher(const_cast<void*>(static_cast<const void*>(HelperLauncher())));
          },
          "Let a library, whose function is given, run on this process's helpers, of which there "
          "are at most max_threads - 1.")
      .def(
          "tvm_ios.runtime.HelperCounts",
          [] {
            const HelperCounts counts = HelperPool::Get().counts();
            return ffi::Shape(
                {counts.launches, counts.helped, counts.units, counts.stolen, counts.lent});
          },
          "Launches on several workers, those with helpers, their units, the stolen ones, and how "
          "often a core was lent.")
      .def("tvm_ios.runtime.TimeArithmetic", CpuStage::TimeArithmetics,
           "The seconds of known arithmetic on the slowest of so many workers.")
      .def(
          "tvm_ios.runtime.Describe", [] { return ffi::String(Describe()); },
          "A description of this machine.")
      .def(
          "tvm_ios.runtime.SourceDigest", [] { return ffi::String(kSourceDigest); },
          "A digest of the sources that run and time stages.");

  Functions()
      .def("tvm_ios.BeginCerrCapture", BeginCerrCapture,
           "Capture what this thread writes to std::cerr, where TVM's log goes.")
      .def(
          "tvm_ios.EndCerrCapture", [] { return ffi::String(EndCerrCapture()); },
          "End this thread's last capture: its text.");

  Functions()
      .def_packed("tvm_ios.runtime.cuda.RunStage", RunCudaStage,
                  "Run a stage on streams: its program, then kernels, then tensors.")
      .def_packed("tvm_ios.runtime.cuda.CudnnConvolution", RunCudnnConvolution,
                  "A convolution by cuDNN: tensors, the algorithm, the numbers of the problem.")
      .def("tvm_ios.runtime.cuda.CudnnAlgorithms", CudnnAlgorithms,
           "The algorithms for a problem on a device: number and bytes of workspace of each.")
      .def(
          "tvm_ios.runtime.cuda.UseCudnn",
          [](const ffi::String& path) { cuda::Cudnn::Use(std::string(path)); },
          "Load cuDNN from this file when it is first needed.")
      .def(
          "tvm_ios.runtime.cuda.CudnnVersion",
          [] { return ffi::String(cuda::Cudnn::Get().version()); },
          "The version of cuDNN, such as 9.28.0.")
      .def(
          "tvm_ios.runtime.cuda.Describe",
          [](int64_t device_id) { return ffi::String(cuda::Describe(device_id)); },
          "A description of a CUDA device.")
      .def("tvm_ios.cuda.IsSource", cuda::IsSource,
           "Whether a module is device code that TVM left as source.")
      .def("tvm_ios.cuda.WithMachineCode", cuda::WithMachineCode,
           "A module of source code with the source compiled.");

  // Functions that a search calls, in its own process or across RPC. RPC passes only numbers,
  // bytes, modules and references.
  Functions()
      .def("tvm_ios.runtime.NewStageRunner",
           [] { return StageRunnerRef(ffi::make_object<StageRunnerObj>()); })
      .def("tvm_ios.runtime.AddMemory",
           [](StageRunnerRef runner, int64_t bytes) { return runner->runner.AddMemory(bytes); })
      .def("tvm_ios.runtime.WriteMemory",
           [](StageRunnerRef runner, int64_t memory, int64_t offset, const ffi::Bytes& bytes) {
             runner->runner.Write(memory, offset, bytes);
           })
      .def("tvm_ios.runtime.FillMemory",
           [](StageRunnerRef runner, int64_t memory, const ffi::Bytes& bytes) {
             runner->runner.Fill(memory, bytes);
           })
      .def("tvm_ios.runtime.AddKernel", AddKernel<StageRunnerRef>)
      .def("tvm_ios.runtime.TimeOnRunner", TimeOnRunner,
           "Seconds of stages, float64 [2 + repeat * (2 + stages)] as bytes; see "
           "StageRunner::Time.");

  // The same for a CUDA device.
  Functions()
      .def("tvm_ios.runtime.cuda.NewStageRunner",
           [](int64_t device_id) {
             return CudaStageRunnerRef(ffi::make_object<CudaStageRunnerObj>(device_id));
           })
      .def("tvm_ios.runtime.cuda.AddMemory",
           [](CudaStageRunnerRef runner, int64_t bytes) { return runner->runner.AddMemory(bytes); })
      .def("tvm_ios.runtime.cuda.WriteMemory",
           [](CudaStageRunnerRef runner, int64_t memory, int64_t offset, const ffi::Bytes& bytes) {
             runner->runner.Write(memory, offset, bytes);
           })
      .def("tvm_ios.runtime.cuda.FillMemory",
           [](CudaStageRunnerRef runner, int64_t memory, const ffi::Bytes& bytes) {
             runner->runner.Fill(memory, bytes);
           })
      .def("tvm_ios.runtime.cuda.ReadMemory",
           [](CudaStageRunnerRef runner, int64_t memory, int64_t offset, int64_t size) {
             return runner->runner.Read(memory, offset, size);
           })
      .def("tvm_ios.runtime.cuda.AddKernel", AddKernel<CudaStageRunnerRef>)
      .def("tvm_ios.runtime.cuda.RunOnRunner", RunOnCudaRunner, "Run stages once.")
      .def("tvm_ios.runtime.cuda.TimeOnRunner", TimeOnCudaRunner,
           "Seconds per run in a CUDA graph, float64 [repeat] as bytes.")
      .def("tvm_ios.runtime.cuda.TraceOnRunner", TraceOnCudaRunner,
           "Begin and end of each call in a CUDA graph, float64 [repeat, calls, 2] as bytes.");
}

}  // namespace
}  // namespace tvm_ios
