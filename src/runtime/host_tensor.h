// SPDX-License-Identifier: Apache-2.0
/*!
 * \file host_tensor.h
 * \brief Plain arrays in host memory as TVM FFI tensors, and back.
 */
#ifndef TVM_IOS_RUNTIME_HOST_TENSOR_H_
#define TVM_IOS_RUNTIME_HOST_TENSOR_H_

#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/error.h>

#include <cstdint>
#include <cstring>
#include <new>
#include <vector>

namespace tvm_ios {

inline constexpr DLDataType kInt32{kDLInt, 32, 1};
inline constexpr DLDataType kInt64{kDLInt, 64, 1};
inline constexpr DLDataType kUInt64{kDLUInt, 64, 1};
inline constexpr DLDataType kFloat64{kDLFloat, 64, 1};

/*! \brief Aligned to a cache line, for Tensor::FromNDAlloc. */
struct HostAllocator {
  static constexpr std::align_val_t kAlignment{64};
  void AllocData(DLTensor* tensor) {
    tensor->data = ::operator new(::tvm::ffi::GetDataSize(*tensor), kAlignment);
  }
  void FreeData(DLTensor* tensor) { ::operator delete(tensor->data, kAlignment); }
};

/*! \brief A tensor with a copy of the values. */
template <typename T>
::tvm::ffi::Tensor MakeTensor(const std::vector<T>& values, const std::vector<int64_t>& shape,
                              DLDataType dtype) {
  ::tvm::ffi::Tensor tensor = ::tvm::ffi::Tensor::FromNDAlloc(
      HostAllocator(), ::tvm::ffi::ShapeView(shape.data(), shape.size()), dtype,
      DLDevice{kDLCPU, 0});
  if (!values.empty()) std::memcpy(tensor.data_ptr(), values.data(), values.size() * sizeof(T));
  return tensor;
}

/*! \brief The elements of a contiguous host tensor of the given rank and type. */
template <typename T>
const T* HostData(const ::tvm::ffi::TensorView& tensor, int ndim, DLDataType dtype,
                  const char* name) {
  TVM_FFI_CHECK(tensor.device().device_type == kDLCPU, ValueError) << name << " is not on the host";
  TVM_FFI_CHECK(tensor.ndim() == ndim && tensor.IsContiguous(), ValueError)
      << name << " must be contiguous and have " << ndim << " dimensions";
  TVM_FFI_CHECK(tensor.dtype() == dtype, ValueError) << name << " has another element type";
  return static_cast<const T*>(tensor.data_ptr());
}

}  // namespace tvm_ios
#endif  // TVM_IOS_RUNTIME_HOST_TENSOR_H_
