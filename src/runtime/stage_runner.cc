// SPDX-License-Identifier: Apache-2.0
#include "runtime/stage_runner.h"

#include <tvm/ffi/container/array.h>
#include <tvm/ffi/error.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "runtime/arguments.h"
#include "runtime/host_tensor.h"
#include "support/memory.h"

namespace tvm_ios {

namespace ffi = ::tvm::ffi;

namespace {

constexpr DLDataType kByte{kDLUInt, 8, 1};
constexpr DLDevice kHost{kDLCPU, 0};
constexpr int64_t kMaxRuns = 1'000'000;  // more than anybody waits for

char* DataOf(const ffi::Tensor& memory) { return static_cast<char*>(memory.data_ptr()); }

}  // namespace

int64_t StageRunner::AddMemory(int64_t num_bytes) {
  TVM_IOS_REQUIRE(num_bytes >= 0, ValueError) << "memory cannot have " << num_bytes << " bytes";
  TVM_IOS_REQUIRE(num_bytes <= AvailableMemory(), MemoryError)
      << "there are no " << num_bytes << " bytes of memory left; use a smaller network or batch";
  const auto memory =
      ffi::Tensor::FromNDAlloc(HostAllocator(), ffi::Shape({num_bytes}), kByte, kHost);
  std::memset(DataOf(memory), 0, num_bytes);
  return memories_.Add(memory);
}

void StageRunner::Write(int64_t memory, int64_t offset, const ffi::Bytes& bytes) {
  const ffi::Tensor& to = memories_.at(memory);
  const int64_t size = static_cast<int64_t>(bytes.size());
  CheckPart(offset, size, to.size(0), "a memory");
  if (size > 0) std::memcpy(DataOf(to) + offset, bytes.data(), size);
}

void StageRunner::Fill(int64_t memory, const ffi::Bytes& bytes) {
  const ffi::Tensor& to = memories_.at(memory);
  const int64_t size = static_cast<int64_t>(bytes.size());
  TVM_IOS_REQUIRE(size > 0, ValueError) << "there is nothing to fill memory with";
  for (int64_t begin = 0; begin < to.size(0); begin += size) {
    std::memcpy(DataOf(to) + begin, bytes.data(), std::min(size, to.size(0) - begin));
  }
}

std::vector<double> StageRunner::Time(const ffi::Bytes& program, const ffi::Bytes& stages,
                                      const ffi::Bytes& calls, int64_t workers,
                                      int64_t repeat) const {
  const NumberReader<int32_t> levels(stages, "the levels of the stages");
  CheckRange(workers, 1, CpuStage::kMaxWorkers, "the number of workers");
  std::vector<double> seconds{CpuStage::TimeCopies(workers), 0};
  ForEachRun(program, calls, workers, repeat, [&](const CpuStage& stage) {
    const CpuStage::Times times = stage.Time(levels.values());
    seconds.insert(seconds.end(), {times.speed_before, times.speed_after});
    seconds.insert(seconds.end(), times.stages.begin(), times.stages.end());
  });
  seconds[1] = CpuStage::TimeCopies(workers);
  return seconds;
}

void StageRunner::ForEachRun(const ffi::Bytes& program, const ffi::Bytes& calls, int64_t workers,
                             int64_t repeat,
                             const std::function<void(const CpuStage&)>& use) const {
  CheckRange(workers, 1, CpuStage::kMaxWorkers, "the number of workers");
  CheckRange(repeat, 1, kMaxRuns, "repeat");
  const NumberReader<int32_t> rows(program, "the rows of the stage program");
  const size_t columns = CpuStage::NumColumns(workers);
  int64_t num_calls = 0;
  for (size_t row = 0; row < rows.values().size(); row += columns) {
    num_calls = std::max(num_calls, int64_t{rows.values()[row]} + 1);
  }
  NumberReader<int64_t> reader(calls, "the calls of the stage");
  for (int64_t run = 0; run < repeat; ++run) {
    CpuStage::Kernels functions;
    CpuStage::Tensors tensors;
    for (int64_t call = 0; call < num_calls; ++call) {
      const KernelTable::Kernel& kernel = kernels_.at(reader.Next());
      ffi::Array<ffi::Tensor> args;
      for (const KernelTable::Spec& spec : kernel.specs) {
        const int64_t memory = reader.Next();
        args.push_back(BorrowedTensor(memories_.Address(spec, memory, reader.Next()), spec, kHost));
      }
      functions.push_back(kernel.function);
      tensors.push_back(std::move(args));
    }
    use(CpuStage(functions, tensors, rows.values(), workers));
  }
}

}  // namespace tvm_ios
