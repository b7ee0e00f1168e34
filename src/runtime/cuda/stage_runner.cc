// SPDX-License-Identifier: Apache-2.0
#include "runtime/cuda/stage_runner.h"

#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/error.h>

#include <algorithm>
#include <string>
#include <utility>

#include "runtime/arguments.h"
#include "runtime/cuda/scopes.h"
#include "runtime/cuda/timing.h"
#include "runtime/cuda/trace.h"

namespace tvm_ios {
namespace cuda {

namespace ffi = ::tvm::ffi;

namespace {

constexpr DLDataType kByte{kDLUInt, 8, 1};
constexpr int64_t kNoMemory = -1;

/*! \brief An allocator of a device's memory, for Tensor::FromNDAlloc. */
struct DeviceAllocator {
  void AllocData(DLTensor* tensor) {
    const ContextScope context(tensor->device.device_id);
    const size_t bytes = std::max(ffi::GetDataSize(*tensor), size_t{1});  // 0 is no size for CUDA
    Driver::Get().cuMemAlloc(&tensor->data, bytes);
  }
  void FreeData(DLTensor* tensor) {
    const ContextScope context(tensor->device.device_id);
    Driver::Get().cuMemFree.Try(tensor->data);
  }
};

char* DataOf(const ffi::Tensor& memory) { return static_cast<char*>(memory.data_ptr()); }

}  // namespace

StageRunner::StageRunner(int64_t device_id) : device_{kDLCUDA, 0} {
  FindDevice(device_id);
  device_.device_id = static_cast<int32_t>(device_id);
  const ContextScope context(device_.device_id);
}

int64_t StageRunner::AddMemory(int64_t num_bytes) {
  TVM_IOS_REQUIRE(num_bytes >= 0, ValueError) << "memory cannot have " << num_bytes << " bytes";
  return memories_.Add(
      ffi::Tensor::FromNDAlloc(DeviceAllocator(), ffi::Shape({num_bytes}), kByte, device_));
}

void StageRunner::Write(int64_t memory, int64_t offset, const ffi::Bytes& bytes) {
  const ffi::Tensor& to = memories_.at(memory);
  const int64_t size = static_cast<int64_t>(bytes.size());
  CheckPart(offset, size, to.size(0), "a memory");
  Copy(DataOf(to) + offset, bytes.data(), size);
}

void StageRunner::Fill(int64_t memory, const ffi::Bytes& bytes) {
  const ffi::Tensor& to = memories_.at(memory);
  const int64_t size = static_cast<int64_t>(bytes.size());
  TVM_IOS_REQUIRE(size > 0, ValueError) << "there is nothing to fill memory with";
  // A copy costs some microseconds, however little it moves: each doubles what is filled.
  const int64_t total = to.size(0);
  Copy(DataOf(to), bytes.data(), std::min(size, total));
  for (int64_t filled = size; filled < total; filled *= 2) {
    Copy(DataOf(to) + filled, DataOf(to), std::min(filled, total - filled));
  }
}

ffi::Bytes StageRunner::Read(int64_t memory, int64_t offset, int64_t size) const {
  const ffi::Tensor& from = memories_.at(memory);
  CheckPart(offset, size, from.size(0), "a memory");
  std::string content(size, '\0');
  Copy(content.data(), DataOf(from) + offset, size);
  return ffi::Bytes(std::move(content));
}

void StageRunner::Run(const ffi::Bytes& stages) const {
  const std::vector<Stage> found = Read(stages);
  CheckStages(found, 1);
  const ContextScope context(device_.device_id);
  for (const Stage& stage : found) stage.Run();
  Driver::Get().cuStreamSynchronize(CurrentStream(device_.device_id));
}

std::vector<double> StageRunner::Time(const ffi::Bytes& runs, int64_t repeat,
                                      int64_t filler) const {
  ffi::Optional<ffi::Tensor> memory;
  if (filler != kNoMemory) memory = memories_.at(filler);
  return cuda::Time(Read(runs), repeat, memory);
}

std::vector<double> StageRunner::Trace(const ffi::Bytes& stages, int64_t repeat) const {
  return cuda::Trace(Read(stages), repeat);
}

std::vector<Stage> StageRunner::Read(const ffi::Bytes& stages) const {
  std::vector<Stage> found;
  for (NumberReader<int64_t> reader(stages, "the stages"); !reader.done();) {
    const int64_t num_streams = reader.Next();
    const int64_t num_calls = reader.Next();
    CheckRange(num_calls, 1, reader.left(), "the number of a stage's calls");
    CheckRange(num_streams, 1, num_calls, "the number of a stage's streams");
    std::vector<Stage::Call> calls;
    for (int64_t i = 0; i < num_calls; ++i) {
      const KernelTable::Kernel& kernel = kernels_.at(reader.Next());
      const int64_t stream = reader.Next();
      CheckIndex(stream, num_streams, "stream");
      Stage::Call call{kernel.function, static_cast<size_t>(stream), {}, {}};
      for (int64_t waits = reader.Next(); waits > 0; --waits) {
        const int64_t earlier = reader.Next();
        CheckIndex(earlier, i, "earlier call");
        call.waits.push_back(static_cast<size_t>(earlier));
      }
      for (const KernelTable::Spec& spec : kernel.specs) {
        const int64_t memory = reader.Next();
        char* data = memories_.Address(spec, memory, reader.Next());
        call.tensors.emplace_back(BorrowedTensor(data, spec, device_));
      }
      calls.push_back(std::move(call));
    }
    found.emplace_back(device_.device_id, static_cast<size_t>(num_streams), std::move(calls));
  }
  return found;
}

void StageRunner::Copy(void* to, const void* from, int64_t size) const {
  if (size == 0) return;
  const ContextScope context(device_.device_id);
  const Stream stream = CurrentStream(device_.device_id);
  Driver::Get().cuMemcpyAsync(to, from, static_cast<size_t>(size), stream);
  Driver::Get().cuStreamSynchronize(stream);
}

}  // namespace cuda
}  // namespace tvm_ios
