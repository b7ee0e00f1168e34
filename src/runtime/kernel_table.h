// SPDX-License-Identifier: Apache-2.0
/*!
 * \file kernel_table.h
 * \brief Kernels that callers refer to by number, and the numbers of their calls.
 */
#ifndef TVM_IOS_RUNTIME_KERNEL_TABLE_H_
#define TVM_IOS_RUNTIME_KERNEL_TABLE_H_

#include <tvm/ffi/container/shape.h>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/error.h>
#include <tvm/ffi/function.h>
#include <tvm/ffi/string.h>

#include <cstdint>
#include <cstring>
#include <limits>
#include <utility>
#include <vector>

#include "runtime/arguments.h"

namespace tvm_ios {

/*! \brief A reader of numbers, one after another. */
template <typename T>
class NumberReader {
 public:
  /*! \param name Of the numbers, in the plural, for messages. */
  NumberReader(const ::tvm::ffi::Bytes& bytes, const char* name) : name_(name) {
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

/*! \brief Kernels and the types of their tensors. */
class KernelTable {
 public:
  struct Spec {
    DLDataType dtype;
    ::tvm::ffi::Shape shape;
    int64_t bytes;
  };
  struct Kernel {
    ::tvm::ffi::Function function;
    std::vector<Spec> specs;
  };

  /*! \brief Read a spec: type code, bits, rank, and as many sizes. */
  template <typename Reader>
  static Spec ReadSpec(Reader* reader);

  /*!
   * \brief Add a kernel.
   * \param function Takes the tensors, and maybe more.
   * \param specs int64 for each tensor: type code, bits, rank, and as many sizes.
   * \return Its number.
   */
  int64_t Add(::tvm::ffi::Function function, const ::tvm::ffi::Bytes& specs);

  /*! \throw ffi::Error, an IndexError, if there is no such kernel. */
  const Kernel& at(int64_t number) const;

 private:
  std::vector<Kernel> kernels_;
};

template <typename Reader>
KernelTable::Spec KernelTable::ReadSpec(Reader* reader) {
  constexpr int64_t kMost = std::numeric_limits<uint8_t>::max();
  const int64_t code = reader->Next();
  CheckRange(code, 0, kMost, "the type code of a kernel's tensor");
  const int64_t bits = reader->Next();
  CheckRange(bits, 1, kMost, "the bits of a kernel's tensor");
  const int64_t rank = reader->Next();
  CheckRange(rank, 0, reader->left(), "the rank of a kernel's tensor");
  std::vector<int64_t> sizes(rank);
  for (int64_t& size : sizes) size = reader->Next();
  const DLDataType dtype{static_cast<uint8_t>(code), static_cast<uint8_t>(bits), 1};
  ::tvm::ffi::Shape shape(sizes.begin(), sizes.end());
  const int64_t bytes = CheckedBytes(shape, dtype, "a kernel's tensor");
  return {dtype, std::move(shape), bytes};
}

/*! \brief Memory that callers refer to by number: tensors of bytes. */
class MemoryTable {
 public:
  /*! \brief Add a memory and return its number. */
  int64_t Add(::tvm::ffi::Tensor memory);

  /*! \throw ffi::Error, an IndexError, if there is no such memory. */
  const ::tvm::ffi::Tensor& at(int64_t number) const;

  /*!
   * \brief Return the address of a tensor within a memory.
   * \throw ffi::Error, a ValueError, if the tensor exceeds the memory or is not aligned to its
   *  elements.
   */
  char* Address(const KernelTable::Spec& spec, int64_t memory, int64_t offset) const;

 private:
  std::vector<::tvm::ffi::Tensor> memories_;
};

/*! \brief Return a tensor of memory that the caller keeps alive. */
::tvm::ffi::Tensor BorrowedTensor(char* data, const KernelTable::Spec& spec, DLDevice device);

}  // namespace tvm_ios
#endif  // TVM_IOS_RUNTIME_KERNEL_TABLE_H_
