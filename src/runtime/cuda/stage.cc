// SPDX-License-Identifier: Apache-2.0
#include "runtime/cuda/stage.h"

#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/error.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "runtime/arguments.h"
#include "runtime/cuda/graph_events.h"
#include "runtime/cuda/scopes.h"
#include "runtime/cuda/stream_pool.h"

namespace tvm_ios {
namespace cuda {

namespace ffi = ::tvm::ffi;

namespace {

/*! \brief The side streams of one run of a stage, between fork and join. */
class Fork {
 public:
  Fork(const StreamLease& lease, Stream main) : lease_(lease), main_(main) {}
  ~Fork() { TryJoin(); }
  Fork(const Fork&) = delete;
  Fork& operator=(const Fork&) = delete;

  /*! \brief Let the side streams wait for the work issued so far on the main stream. */
  void Begin() {
    driver_.cuEventRecord(lease_.fork(), main_);
    while (forked_ < lease_.num_streams()) {
      driver_.cuStreamWaitEvent(lease_.stream(forked_), lease_.fork(), 0);
      ++forked_;
    }
  }

  /*! \brief Let the main stream wait for the side streams. */
  void Join() {
    const Results results = TryJoin();
    driver_.cuEventRecord.Check(results.record);
    driver_.cuStreamWaitEvent.Check(results.wait);
  }

 private:
  /*! \brief The first errors of each kind. */
  struct Results {
    Result record{kSuccess};
    Result wait{kSuccess};
  };

  /*! \brief Join every forked stream, even after joining one has failed. */
  Results TryJoin() noexcept {
    Results first;
    while (forked_ > 0) {
      --forked_;
      const Event done = lease_.done(forked_);
      const Result record = driver_.cuEventRecord.Try(done, lease_.stream(forked_));
      // An event that was not recorded would join the work of its last record.
      const Result wait =
          record == kSuccess ? driver_.cuStreamWaitEvent.Try(main_, done, 0) : kSuccess;
      if (first.record == kSuccess) first.record = record;
      if (first.wait == kSuccess) first.wait = wait;
    }
    return first;
  }

  const Driver& driver_{Driver::Get()};
  const StreamLease& lease_;
  const Stream main_;
  size_t forked_{0};
};

constexpr int64_t kMaxRuns = 1'000'000;  // a limit on repetitions

/*! \brief Count the arguments from begin on that are functions. */
int CountFunctions(const ffi::PackedArgs& args, int begin) {
  int end = begin;
  while (end < args.size() && args[end].type_index() == ffi::TypeIndex::kTVMFFIFunction) ++end;
  return end - begin;
}

/*! \brief Return the device that all of the tensors are on. */
int DeviceOf(const ffi::PackedArgs& tensors) {
  TVM_IOS_REQUIRE(tensors.size() > 0, ValueError) << "a stage needs at least one tensor";
  DLDevice device{kDLCPU, 0};
  for (int i = 0; i < tensors.size(); ++i) {
    const auto tensor = tensors[i].try_cast<ffi::TensorView>();
    TVM_IOS_REQUIRE(tensor.has_value(), TypeError)
        << "a stage takes a program, then kernels, then tensors; argument " << i
        << " after the kernels is no tensor";
    if (i == 0) device = tensor->device();
    TVM_IOS_REQUIRE(tensor->device().device_type == kDLCUDA, ValueError)
        << "tensor " << i << " of the stage is not on a CUDA device";
    TVM_IOS_REQUIRE(tensor->device().device_id == device.device_id, ValueError)
        << "tensor " << i << " of the stage is on device " << tensor->device().device_id
        << ", the first one on device " << device.device_id;
  }
  return device.device_id;
}

/*! \brief Return a tensor within a workspace of bytes. */
ffi::Tensor PartOf(const ffi::TensorView& workspace, const PlacedTensor& part) {
  TVM_IOS_REQUIRE(workspace.IsContiguous(), ValueError) << "the workspace must be contiguous";
  CheckPart(part.offset, part.spec.bytes,
            CheckedBytes(workspace.shape(), workspace.dtype(), "a workspace"), "a workspace");
  char* data = static_cast<char*>(workspace.data_ptr()) + workspace.byte_offset();
  return BorrowedTensor(data + part.offset, part.spec, workspace.device());
}

}  // namespace

Stage::Stage(ffi::PackedArgs args) {
  const auto program = args.size() > 0 ? args[0].try_cast<ffi::Shape>() : std::nullopt;
  TVM_IOS_REQUIRE(program.has_value(), TypeError) << "a stage's first argument is its program";
  const int num_kernels = CountFunctions(args, 1);
  const ffi::PackedArgs tensors = args.Slice(1 + num_kernels);
  const int device_id = DeviceOf(tensors);
  const StageProgram read = ReadProgram(*program, num_kernels, tensors.size());
  std::vector<ffi::Any> known;
  for (int i = 0; i < tensors.size(); ++i) known.emplace_back(tensors[i]);
  if (!read.parts.empty()) {
    const auto workspace = tensors[tensors.size() - 1].cast<ffi::TensorView>();
    for (const PlacedTensor& part : read.parts) known.emplace_back(PartOf(workspace, part));
  }
  std::vector<Call> calls;
  for (const StageCall& call : read.calls) {
    std::vector<ffi::Any> own;
    for (int64_t tensor : call.tensors) own.push_back(known[tensor]);
    calls.push_back({args[1 + static_cast<int>(call.kernel)].cast<ffi::Function>(),
                     static_cast<size_t>(call.stream),
                     std::vector<size_t>(call.waits.begin(), call.waits.end()), std::move(own)});
  }
  *this = Stage(device_id, static_cast<size_t>(read.num_streams), std::move(calls));
}

Stage::Stage(int device_id, size_t num_streams, std::vector<Call> calls)
    : device_id_(device_id), num_streams_(num_streams), calls_(std::move(calls)) {
  std::vector<bool> used(num_streams);
  for (const Call& call : calls_) used[call.stream] = true;
  const auto unused = std::find(used.begin(), used.end(), false);
  TVM_IOS_REQUIRE(unused == used.end(), ValueError)
      << "the stage calls nothing on stream " << unused - used.begin();
}

void Stage::Run(GraphEvents* events) const {
  if (num_streams_ > 1) return RunOnSeveral(events);
  for (const Call& call : calls_) Issue(call, events);
}

void Stage::Issue(const Call& call, GraphEvents* events) const {
  ffi::Any ignored;
  const std::vector<ffi::AnyView> tensors(call.tensors.begin(), call.tensors.end());
  if (events != nullptr) events->Record(CurrentStream(device_id_));
  call.kernel.CallPacked(tensors.data(), static_cast<int32_t>(tensors.size()), &ignored);
  if (events != nullptr) events->Record(CurrentStream(device_id_));
}

void Stage::RunOnSeveral(GraphEvents* events) const {
  // Destroyed from the last to the first. Also when a kernel throws, the current stream is reset
  // first, then the side streams are joined, then they are returned.
  const ContextScope context(device_id_);
  StreamScope current(device_id_);
  const std::vector<size_t> marks = Awaited();
  const StreamLease lease(device_id_, current.original(), num_streams_ - 1, marks.size());
  Fork fork(lease, current.original());
  fork.Begin();
  std::map<size_t, Event> done;  // of the calls that others wait for
  for (size_t i = 0; i < calls_.size(); ++i) {
    const Call& call = calls_[i];
    const Stream stream = call.stream == 0 ? current.original() : lease.stream(call.stream - 1);
    for (size_t earlier : call.waits) {
      Driver::Get().cuStreamWaitEvent(stream, done.at(earlier), 0);
    }
    current.Set(stream);
    Issue(call, events);
    if (done.size() < marks.size() && marks[done.size()] == i) {
      const Event mark = lease.mark(done.size());
      Driver::Get().cuEventRecord(mark, stream);
      done.emplace(i, mark);
    }
  }
  fork.Join();
}

std::vector<size_t> Stage::Awaited() const {
  std::set<size_t> found;
  for (const Call& call : calls_) found.insert(call.waits.begin(), call.waits.end());
  return {found.begin(), found.end()};
}

void CheckStages(const std::vector<Stage>& stages, int64_t repeat) {
  TVM_IOS_REQUIRE(!stages.empty(), ValueError) << "there must be a stage";
  CheckRange(repeat, 1, kMaxRuns, "repeat");
  for (const Stage& stage : stages) {
    TVM_IOS_REQUIRE(stage.device_id() == stages[0].device_id(), ValueError)
        << "the stages are on several devices";
  }
}

}  // namespace cuda
}  // namespace tvm_ios
