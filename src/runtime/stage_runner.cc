// SPDX-License-Identifier: Apache-2.0
#include "runtime/stage_runner.h"

#include <tvm/ffi/container/array.h>
#include <tvm/ffi/error.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include "runtime/arguments.h"
#include "runtime/host_tensor.h"
#include "support/memory.h"

namespace tvm_ios {

namespace ffi = ::tvm::ffi;

namespace {

constexpr DLDataType kByte{kDLUInt, 8, 1};
constexpr int64_t kMaxRuns = 1'000'000;  // more than anybody waits for

/*! \brief Borrowed memory of a tensor, for Tensor::FromNDAlloc. */
struct Borrowed {
  void* data;
  void AllocData(DLTensor* tensor) { tensor->data = data; }
  void FreeData(DLTensor* /*tensor*/) {}
};

/*! \brief A reader of numbers, one after another. */
template <typename T>
class Reader {
 public:
  Reader(const ffi::Bytes& bytes, const char* name) : name_(name) {
    TVM_IOS_REQUIRE(bytes.size() % sizeof(T) == 0, ValueError) << name << " are cut off";
    values_.resize(bytes.size() / sizeof(T));
    if (!values_.empty()) std::memcpy(values_.data(), bytes.data(), bytes.size());
  }

  bool done() const { return left() == 0; }
  int64_t left() const { return static_cast<int64_t>(values_.size() - next_); }
  const std::vector<T>& values() const { return values_; }

  T Next() {
    TVM_IOS_REQUIRE(!done(), ValueError) << name_ << " are cut off";
    return values_[next_++];
  }

 private:
  const char* name_;
  std::vector<T> values_;
  size_t next_{0};
};

char* DataOf(const ffi::Tensor& memory) { return static_cast<char*>(memory.data_ptr()); }

/*! \brief Read a number of eight bits. */
uint8_t NextByte(Reader<int64_t>* reader, int64_t least, const char* what) {
  const int64_t number = reader->Next();
  CheckRange(number, least, std::numeric_limits<uint8_t>::max(), what);
  return static_cast<uint8_t>(number);
}

}  // namespace

int64_t StageRunner::AddMemory(int64_t num_bytes) {
  TVM_IOS_REQUIRE(num_bytes >= 0, ValueError) << "memory cannot have " << num_bytes << " bytes";
  TVM_IOS_REQUIRE(num_bytes <= AvailableMemory(), MemoryError)
      << "there are no " << num_bytes << " bytes of memory left; use a smaller network or batch";
  memories_.push_back(ffi::Tensor::FromNDAlloc(HostAllocator(), ffi::Shape({num_bytes}), kByte,
                                               DLDevice{kDLCPU, 0}));
  std::memset(DataOf(memories_.back()), 0, num_bytes);
  return static_cast<int64_t>(memories_.size()) - 1;
}

void StageRunner::Write(int64_t memory, int64_t offset, const ffi::Bytes& bytes) {
  const ffi::Tensor& to = Memory(memory);
  const int64_t size = static_cast<int64_t>(bytes.size());
  CheckPart(offset, size, to.size(0), "a memory");
  if (size > 0) std::memcpy(DataOf(to) + offset, bytes.data(), size);
}

void StageRunner::Fill(int64_t memory, const ffi::Bytes& bytes) {
  const ffi::Tensor& to = Memory(memory);
  const int64_t size = static_cast<int64_t>(bytes.size());
  TVM_IOS_REQUIRE(size > 0, ValueError) << "there is nothing to fill memory with";
  for (int64_t begin = 0; begin < to.size(0); begin += size) {
    std::memcpy(DataOf(to) + begin, bytes.data(), std::min(size, to.size(0) - begin));
  }
}

int64_t StageRunner::AddKernel(ffi::Function function, const ffi::Bytes& specs) {
  Kernel kernel{std::move(function), {}};
  for (Reader<int64_t> reader(specs, "the tensors of a kernel"); !reader.done();) {
    const uint8_t code = NextByte(&reader, 0, "the type code of a kernel's tensor");
    const uint8_t bits = NextByte(&reader, 1, "the bits of a kernel's tensor");
    const int64_t rank = reader.Next();
    CheckRange(rank, 0, reader.left(), "the rank of a kernel's tensor");
    std::vector<int64_t> sizes(rank);
    for (int64_t& size : sizes) size = reader.Next();
    const DLDataType dtype{code, bits, 1};
    ffi::Shape shape(sizes.begin(), sizes.end());
    const int64_t bytes = CheckedBytes(shape, dtype, "a kernel's tensor");
    kernel.specs.push_back({dtype, std::move(shape), bytes});
  }
  kernels_.push_back(std::move(kernel));
  return static_cast<int64_t>(kernels_.size()) - 1;
}

std::vector<double> StageRunner::Time(const ffi::Bytes& program, const ffi::Bytes& stages,
                                      const ffi::Bytes& calls, int64_t workers,
                                      int64_t repeat) const {
  const Reader<int32_t> levels(stages, "the levels of the stages");
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

std::vector<CpuStage::Span> StageRunner::Trace(const ffi::Bytes& program, const ffi::Bytes& calls,
                                               int64_t workers) const {
  std::vector<CpuStage::Span> spans;
  ForEachRun(program, calls, workers, 1,
             [&spans](const CpuStage& stage) { spans = stage.Trace(); });
  return spans;
}

void StageRunner::ForEachRun(const ffi::Bytes& program, const ffi::Bytes& calls, int64_t workers,
                             int64_t repeat,
                             const std::function<void(const CpuStage&)>& use) const {
  CheckRange(workers, 1, CpuStage::kMaxWorkers, "the number of workers");
  CheckRange(repeat, 1, kMaxRuns, "repeat");
  const Reader<int32_t> rows(program, "the rows of the stage program");
  const size_t columns = CpuStage::NumColumns(workers);
  int64_t num_calls = 0;
  for (size_t row = 0; row < rows.values().size(); row += columns) {
    num_calls = std::max(num_calls, int64_t{rows.values()[row]} + 1);
  }
  Reader<int64_t> reader(calls, "the calls of the stage");
  for (int64_t run = 0; run < repeat; ++run) {
    CpuStage::Kernels functions;
    CpuStage::Tensors tensors;
    for (int64_t call = 0; call < num_calls; ++call) {
      const Kernel& kernel = KernelOf(reader.Next());
      ffi::Array<ffi::Tensor> args;
      for (const Spec& spec : kernel.specs) {
        const int64_t memory = reader.Next();
        args.push_back(View(spec, memory, reader.Next()));
      }
      functions.push_back(kernel.function);
      tensors.push_back(std::move(args));
    }
    use(CpuStage(functions, tensors, rows.values(), workers));
  }
}

const ffi::Tensor& StageRunner::Memory(int64_t number) const {
  CheckIndex(number, static_cast<int64_t>(memories_.size()), "memory");
  return memories_[number];
}

const StageRunner::Kernel& StageRunner::KernelOf(int64_t number) const {
  CheckIndex(number, static_cast<int64_t>(kernels_.size()), "kernel");
  return kernels_[number];
}

ffi::Tensor StageRunner::View(const Spec& spec, int64_t memory, int64_t offset) const {
  const ffi::Tensor& whole = Memory(memory);
  CheckPart(offset, spec.bytes, whole.size(0), "a memory");
  TVM_IOS_REQUIRE(offset % ((spec.dtype.bits + 7) / 8) == 0, ValueError)
      << "byte " << offset << " of a memory is not aligned to the elements of a kernel's tensor";
  return ffi::Tensor::FromNDAlloc(Borrowed{DataOf(whole) + offset}, spec.shape, spec.dtype,
                                  DLDevice{kDLCPU, 0});
}

}  // namespace tvm_ios
