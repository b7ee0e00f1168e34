// SPDX-License-Identifier: Apache-2.0
/*!
 * \file host_tensor.h
 * \brief Plain arrays in host memory as TVM FFI tensors, and back.
 */
#ifndef TVM_IOS_RUNTIME_HOST_TENSOR_H_
#define TVM_IOS_RUNTIME_HOST_TENSOR_H_

#include <tvm/ffi/container/tensor.h>

#include <cstdint>
#include <cstring>
#include <new>
#include <vector>

#include "runtime/arguments.h"

namespace tvm_ios {

/*! \brief An allocator aligned to cache lines, for Tensor::FromNDAlloc. */
struct HostAllocator {
  static constexpr std::align_val_t kAlignment{64};
  void AllocData(DLTensor* tensor) {
    tensor->data = ::operator new(::tvm::ffi::GetDataSize(*tensor), kAlignment);
  }
  void FreeData(DLTensor* tensor) { ::operator delete(tensor->data, kAlignment); }
};

/*! \brief Return a tensor with a copy of the values. */
template <typename T>
::tvm::ffi::Tensor MakeTensor(const std::vector<T>& values, const std::vector<int64_t>& shape,
                              DLDataType dtype) {
  ::tvm::ffi::Tensor tensor = ::tvm::ffi::Tensor::FromNDAlloc(
      HostAllocator(), ::tvm::ffi::ShapeView(shape.data(), shape.size()), dtype,
      DLDevice{kDLCPU, 0});
  if (!values.empty()) std::memcpy(tensor.data_ptr(), values.data(), values.size() * sizeof(T));
  return tensor;
}

}  // namespace tvm_ios
#endif  // TVM_IOS_RUNTIME_HOST_TENSOR_H_
