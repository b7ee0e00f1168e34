// SPDX-License-Identifier: Apache-2.0
/*!
 * \file tensor_part.h
 * \brief Tensors inside the memory of another one.
 */
#ifndef TVM_IOS_RUNTIME_TENSOR_PART_H_
#define TVM_IOS_RUNTIME_TENSOR_PART_H_

#include <tvm/ffi/container/shape.h>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/error.h>

#include <cstdint>
#include <utility>

#include "runtime/arguments.h"

namespace tvm_ios {

/*! \brief An allocator inside the memory of a tensor, which it keeps alive. */
class WithinTensor {
 public:
  WithinTensor(::tvm::ffi::Tensor whole, int64_t offset)
      : whole_(std::move(whole)), offset_(offset) {}
  void AllocData(DLTensor* part) const {
    part->data = static_cast<char*>(whole_.data_ptr()) + whole_.byte_offset() + offset_;
  }
  void FreeData(DLTensor* /*part*/) const {}

 private:
  ::tvm::ffi::Tensor whole_;
  int64_t offset_;
};

/*!
 * \brief Return a compact tensor that begins at an offset in another tensor's memory.
 *
 * Unlike TVM's views, it has no byte offset, which compiled kernels reject.
 *
 * \throw ffi::Error, a ValueError, if it would exceed the other's memory.
 */
inline ::tvm::ffi::Tensor TensorPart(const ::tvm::ffi::Tensor& whole, int64_t offset,
                                     const ::tvm::ffi::Shape& shape, DLDataType dtype) {
  TVM_IOS_REQUIRE(whole.IsContiguous(), ValueError) << "the tensor must be contiguous";
  CheckPart(offset, CheckedBytes(shape, dtype, "a part of a tensor"),
            CheckedBytes(whole.shape(), whole.dtype(), "a tensor"), "a tensor");
  return ::tvm::ffi::Tensor::FromNDAlloc(WithinTensor(whole, offset), shape, dtype, whole.device());
}

}  // namespace tvm_ios
#endif  // TVM_IOS_RUNTIME_TENSOR_PART_H_
