// SPDX-License-Identifier: Apache-2.0
#include "runtime/workbench.h"

#include <tvm/ffi/container/array.h>
#include <tvm/ffi/error.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "runtime/host_tensor.h"

namespace tvm_ios {

namespace ffi = ::tvm::ffi;

namespace {

constexpr DLDataType kByte{kDLUInt, 8, 1};
constexpr int64_t kNumHeaderColumns = 2;  // of a program: call, level

/*! \brief A tensor whose memory is somebody else's, for Tensor::FromNDAlloc. */
struct Borrowed {
  void* data;
  void AllocData(DLTensor* tensor) { tensor->data = data; }
  void FreeData(DLTensor* /*tensor*/) {}
};

/*! \brief Reads numbers one after another. */
template <typename T>
class Reader {
 public:
  Reader(const ffi::Bytes& bytes, const char* name) : name_(name) {
    TVM_FFI_CHECK(bytes.size() % sizeof(T) == 0, ValueError) << name << " are cut off";
    values_.resize(bytes.size() / sizeof(T));
    if (!values_.empty()) std::memcpy(values_.data(), bytes.data(), bytes.size());
  }

  bool done() const { return next_ == values_.size(); }
  const std::vector<T>& values() const { return values_; }

  T Next() {
    TVM_FFI_CHECK(!done(), ValueError) << name_ << " are cut off";
    return values_[next_++];
  }

 private:
  const char* name_;
  std::vector<T> values_;
  size_t next_{0};
};

char* DataOf(const ffi::Tensor& memory) { return static_cast<char*>(memory.data_ptr()); }

}  // namespace

int64_t Workbench::AddMemory(int64_t num_bytes) {
  TVM_FFI_CHECK(num_bytes >= 0, ValueError) << "memory cannot have " << num_bytes << " bytes";
  memories_.push_back(ffi::Tensor::FromNDAlloc(HostAllocator(), ffi::Shape({num_bytes}), kByte,
                                               DLDevice{kDLCPU, 0}));
  std::memset(DataOf(memories_.back()), 0, num_bytes);
  return static_cast<int64_t>(memories_.size()) - 1;
}

void Workbench::Write(int64_t memory, int64_t offset, const ffi::Bytes& bytes) {
  const ffi::Tensor& to = Memory(memory);
  const int64_t size = static_cast<int64_t>(bytes.size());
  TVM_FFI_CHECK(0 <= offset && offset + size <= to.size(0), ValueError)
      << "byte " << offset + size << " is outside of memory " << memory;
  std::memcpy(DataOf(to) + offset, bytes.data(), size);
}

void Workbench::Fill(int64_t memory, const ffi::Bytes& bytes) {
  const ffi::Tensor& to = Memory(memory);
  const int64_t size = static_cast<int64_t>(bytes.size());
  TVM_FFI_CHECK(size > 0, ValueError) << "there is nothing to fill memory with";
  for (int64_t begin = 0; begin < to.size(0); begin += size) {
    std::memcpy(DataOf(to) + begin, bytes.data(), std::min(size, to.size(0) - begin));
  }
}

int64_t Workbench::AddKernel(ffi::Function function, const ffi::Bytes& specs) {
  Kernel kernel{std::move(function), {}};
  for (Reader<int64_t> reader(specs, "the tensors of a kernel"); !reader.done();) {
    const auto code = static_cast<uint8_t>(reader.Next());
    const auto bits = static_cast<uint8_t>(reader.Next());
    std::vector<int64_t> sizes(std::max<int64_t>(reader.Next(), 0));
    for (int64_t& size : sizes) size = reader.Next();
    kernel.specs.push_back({DLDataType{code, bits, 1}, ffi::Shape(sizes.begin(), sizes.end())});
  }
  kernels_.push_back(std::move(kernel));
  return static_cast<int64_t>(kernels_.size()) - 1;
}

std::vector<double> Workbench::Time(const ffi::Bytes& program, const ffi::Bytes& calls,
                                    int64_t workers, int64_t repeat) const {
  std::vector<double> seconds;
  ForEachRun(program, calls, workers, repeat,
             [&seconds](const CpuStage& stage) { seconds.push_back(stage.Time(1, 1)[0]); });
  return seconds;
}

std::vector<CpuStage::Span> Workbench::Trace(const ffi::Bytes& program, const ffi::Bytes& calls,
                                             int64_t workers) const {
  std::vector<CpuStage::Span> spans;
  ForEachRun(program, calls, workers, 1,
             [&spans](const CpuStage& stage) { spans = stage.Trace(); });
  return spans;
}

void Workbench::ForEachRun(const ffi::Bytes& program, const ffi::Bytes& calls, int64_t workers,
                           int64_t repeat, const std::function<void(const CpuStage&)>& use) const {
  TVM_FFI_CHECK(workers >= 1, ValueError) << "a stage needs at least one worker";
  TVM_FFI_CHECK(repeat >= 1, ValueError) << "repeat must be at least 1";
  Reader<int32_t> rows(program, "the rows of the stage program");
  const int64_t columns = kNumHeaderColumns + workers + 1;
  const int64_t fields = static_cast<int64_t>(rows.values().size());
  TVM_FFI_CHECK(fields % columns == 0, ValueError) << "the stage program is cut off";
  const ffi::Tensor table = MakeTensor(rows.values(), {fields / columns, columns}, kInt32);
  int64_t num_calls = 0;
  for (int64_t row = 0; row < fields; row += columns) {
    num_calls = std::max<int64_t>(num_calls, rows.values()[row] + 1);
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
    use(CpuStage(functions, tensors, table, workers));
  }
}

const ffi::Tensor& Workbench::Memory(int64_t number) const {
  TVM_FFI_CHECK(0 <= number && number < static_cast<int64_t>(memories_.size()), ValueError)
      << "there is no memory " << number;
  return memories_[number];
}

const Workbench::Kernel& Workbench::KernelOf(int64_t number) const {
  TVM_FFI_CHECK(0 <= number && number < static_cast<int64_t>(kernels_.size()), ValueError)
      << "there is no kernel " << number;
  return kernels_[number];
}

ffi::Tensor Workbench::View(const Spec& spec, int64_t memory, int64_t offset) const {
  const ffi::Tensor& whole = Memory(memory);
  Borrowed place{offset >= 0 ? DataOf(whole) + offset : nullptr};
  ffi::Tensor view = ffi::Tensor::FromNDAlloc(place, spec.shape, spec.dtype, DLDevice{kDLCPU, 0});
  const int64_t size = static_cast<int64_t>(ffi::GetDataSize(view));
  TVM_FFI_CHECK(0 <= offset && offset + size <= whole.size(0), ValueError)
      << "a tensor at byte " << offset << " is outside of memory " << memory;
  return view;
}

}  // namespace tvm_ios
