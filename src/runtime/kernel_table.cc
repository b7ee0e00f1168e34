// SPDX-License-Identifier: Apache-2.0
#include "runtime/kernel_table.h"

#include <utility>

namespace tvm_ios {

namespace ffi = ::tvm::ffi;

namespace {

/*! \brief Borrowed memory of a tensor, for Tensor::FromNDAlloc. */
struct Borrowed {
  void* data;
  void AllocData(DLTensor* tensor) { tensor->data = data; }
  void FreeData(DLTensor* /*tensor*/) {}
};

}  // namespace

int64_t KernelTable::Add(ffi::Function function, const ffi::Bytes& specs) {
  Kernel kernel{std::move(function), {}};
  for (NumberReader<int64_t> reader(specs, "the tensors of a kernel"); !reader.done();) {
    kernel.specs.push_back(ReadSpec(&reader));
  }
  kernels_.push_back(std::move(kernel));
  return static_cast<int64_t>(kernels_.size()) - 1;
}

const KernelTable::Kernel& KernelTable::at(int64_t number) const {
  CheckIndex(number, static_cast<int64_t>(kernels_.size()), "kernel");
  return kernels_[number];
}

int64_t MemoryTable::Add(ffi::Tensor memory) {
  memories_.push_back(std::move(memory));
  return static_cast<int64_t>(memories_.size()) - 1;
}

const ffi::Tensor& MemoryTable::at(int64_t number) const {
  CheckIndex(number, static_cast<int64_t>(memories_.size()), "memory");
  return memories_[number];
}

char* MemoryTable::Address(const KernelTable::Spec& spec, int64_t memory, int64_t offset) const {
  const ffi::Tensor& whole = at(memory);
  CheckPart(offset, spec.bytes, whole.size(0), "a memory");
  TVM_IOS_REQUIRE(offset % ((spec.dtype.bits + 7) / 8) == 0, ValueError)
      << "byte " << offset << " of a memory is not aligned to the elements of a kernel's tensor";
  return static_cast<char*>(whole.data_ptr()) + offset;
}

ffi::Tensor BorrowedTensor(char* data, const KernelTable::Spec& spec, DLDevice device) {
  return ffi::Tensor::FromNDAlloc(Borrowed{data}, spec.shape, spec.dtype, device);
}

}  // namespace tvm_ios
