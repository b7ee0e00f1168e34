// SPDX-License-Identifier: Apache-2.0
/*!
 * \file call_tensor.h
 * \brief Tensors that callers give to a network: their types, their places, and copies of them.
 */
#ifndef TVM_IOS_RUNTIME_CALL_TENSOR_H_
#define TVM_IOS_RUNTIME_CALL_TENSOR_H_

#include <tvm/ffi/any.h>
#include <tvm/ffi/container/shape.h>
#include <tvm/ffi/container/tensor.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "runtime/host_tensor.h"

namespace tvm_ios {

/*! \brief Memory aligned as compiled code assumes it of every tensor. */
struct FreeAligned {
  void operator()(char* memory) const { ::operator delete(memory, HostAllocator::kAlignment); }
};
using AlignedBytes = std::unique_ptr<char, FreeAligned>;
AlignedBytes AllocateAligned(size_t bytes);

/*! \brief An input or an output of a network. */
class TensorSpec {
 public:
  /*!
   * \param name With the type and the shape, for messages.
   * \throw ffi::Error, a ValueError, for a shape or a type that no array has.
   */
  TensorSpec(std::string name, DLDataType dtype, ::tvm::ffi::ShapeView shape);

  const std::string& name() const { return name_; }
  size_t bytes() const { return bytes_; }

  /*! \brief The type that callers see: the bits of a bfloat16 are a uint16. */
  DLDataType given_dtype() const;

  /*! \brief Return a contiguous tensor of this type on the host, as the driver takes it. */
  DLTensor At(void* data) const;

  /*! \brief Return new memory of this type, as callers see it. */
  ::tvm::ffi::Tensor Allocate() const;

  /*!
   * \brief Return the tensor of an argument, which must be of this type and on the host.
   * \param argument An argument that is alive as long as the result is used.
   * \param verb What the network does with it, for messages: takes or returns.
   * \throw ffi::Error, a ValueError, if it is not.
   */
  const DLTensor& Check(const ::tvm::ffi::AnyView& argument, const char* verb) const;

 private:
  std::string name_;
  DLDataType dtype_;
  std::vector<int64_t> shape_;
  std::vector<int64_t> strides_;
  size_t bytes_;
};

/*! \brief The bytes from the first one of a tensor to behind its last one. */
struct Extent {
  uintptr_t begin;
  uintptr_t end;
  bool Overlaps(const Extent& other) const { return begin < other.end && other.begin < end; }
};

/*! \brief Return the extent of a tensor of any strides; nothing if it has no elements. */
Extent ExtentOf(const DLTensor& tensor);

/*! \brief Return the address of a tensor's first element. */
inline char* DataOf(const DLTensor& tensor) {
  return static_cast<char*>(tensor.data) + tensor.byte_offset;
}

/*! \brief Return whether compiled code can use an address. */
inline bool IsAligned(const void* data) {
  return reinterpret_cast<uintptr_t>(data) % static_cast<size_t>(HostAllocator::kAlignment) == 0;
}

/*! \brief Copy the elements of a tensor of any strides, in their order, to contiguous memory. */
void CopyElements(const DLTensor& from, char* to);

}  // namespace tvm_ios
#endif  // TVM_IOS_RUNTIME_CALL_TENSOR_H_
