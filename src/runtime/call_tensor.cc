// SPDX-License-Identifier: Apache-2.0
#include "runtime/call_tensor.h"

#include <tvm/ffi/dtype.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "runtime/arguments.h"

namespace tvm_ios {

namespace ffi = ::tvm::ffi;

namespace {

constexpr DLDevice kHost{kDLCPU, 0};
constexpr DLDataType kBits16{kDLUInt, 16, 1};

std::string Describe(const DLTensor& tensor) {
  std::string text = ffi::DLDataTypeToString(tensor.dtype);
  text += "[";
  for (int i = 0; i < tensor.ndim; ++i) {
    text += (i == 0 ? "" : ", ") + std::to_string(tensor.shape[i]);
  }
  return text + "]";
}

/*! \brief Copy elements of kBytes, which are stride bytes apart. */
template <size_t kBytes>
void CopyRow(const char* from, int64_t stride, int64_t count, char* to) {
  for (int64_t i = 0; i < count; ++i) std::memcpy(to + i * kBytes, from + i * stride, kBytes);
}

void CopyRow(const char* from, int64_t stride, int64_t count, size_t bytes, char* to) {
  if (stride == static_cast<int64_t>(bytes)) {
    std::memcpy(to, from, count * bytes);
  } else if (bytes == 4) {
    CopyRow<4>(from, stride, count, to);
  } else if (bytes == 2) {
    CopyRow<2>(from, stride, count, to);
  } else if (bytes == 1) {
    CopyRow<1>(from, stride, count, to);
  } else {
    for (int64_t i = 0; i < count; ++i) std::memcpy(to + i * bytes, from + i * stride, bytes);
  }
}

/*! \brief Copy the dimensions from dim on; return the end of what was written. */
char* CopyFrom(const DLTensor& tensor, int dim, const char* from, size_t bytes, char* to) {
  const int64_t count = tensor.shape[dim], stride = tensor.strides[dim] * int64_t(bytes);
  if (dim == tensor.ndim - 1) {
    CopyRow(from, stride, count, bytes, to);
    return to + count * bytes;
  }
  for (int64_t i = 0; i < count; ++i) {
    to = CopyFrom(tensor, dim + 1, from + i * stride, bytes, to);
  }
  return to;
}

}  // namespace

AlignedBytes AllocateAligned(size_t bytes) {
  return AlignedBytes(static_cast<char*>(::operator new(bytes, HostAllocator::kAlignment)));
}

TensorSpec::TensorSpec(std::string name, DLDataType dtype, ffi::ShapeView shape)
    : name_(std::move(name)),
      dtype_(dtype),
      shape_(shape.begin(), shape.end()),
      strides_(shape.size()),
      bytes_(CheckedBytes(shape, dtype, "a tensor")) {
  TVM_IOS_REQUIRE(dtype.bits > 0 && dtype.bits % 8 == 0 && dtype.lanes == 1, ValueError)
      << "a tensor must have elements of whole bytes";
  int64_t stride = 1;
  for (size_t i = shape_.size(); i-- > 0;) {
    strides_[i] = stride;
    stride *= std::max(shape_[i], int64_t{1});
  }
}

DLDataType TensorSpec::given_dtype() const { return dtype_.code == kDLBfloat ? kBits16 : dtype_; }

DLTensor TensorSpec::At(void* data) const {
  return {data,
          kHost,
          static_cast<int32_t>(shape_.size()),
          dtype_,
          const_cast<int64_t*>(shape_.data()),
          const_cast<int64_t*>(strides_.data()),
          0};
}

ffi::Tensor TensorSpec::Allocate() const {
  return ffi::Tensor::FromNDAlloc(HostAllocator(), ffi::ShapeView(shape_.data(), shape_.size()),
                                  given_dtype(), kHost);
}

const DLTensor& TensorSpec::Check(const ffi::AnyView& argument, const char* verb) const {
  const std::optional<DLTensor*> found = argument.try_cast<DLTensor*>();
  TVM_IOS_REQUIRE(found.has_value() && *found != nullptr, ValueError)
      << "The model " << verb << " " << name_ << "; got no array.";
  const DLTensor& tensor = **found;
  TVM_IOS_REQUIRE(tensor.device.device_type == kDLCPU, ValueError)
      << "The model runs on the CPU; move its inputs there.";
  TVM_IOS_REQUIRE(tensor.dtype == given_dtype() &&
                      tensor.ndim == static_cast<int32_t>(shape_.size()) &&
                      std::equal(shape_.begin(), shape_.end(), tensor.shape),
                  ValueError)
      << "The model " << verb << " " << name_ << "; got " << Describe(tensor) << ".";
  return tensor;
}

Extent ExtentOf(const DLTensor& tensor) {
  const int64_t bytes = tensor.dtype.bits / 8;
  const uintptr_t first = reinterpret_cast<uintptr_t>(DataOf(tensor));
  Extent extent{first, first + bytes};
  int64_t compact = bytes;
  for (int i = tensor.ndim; i-- > 0;) {
    if (tensor.shape[i] == 0) return {0, 0};
    const int64_t stride = tensor.strides == nullptr ? compact : tensor.strides[i] * bytes;
    const int64_t reach = (tensor.shape[i] - 1) * stride;
    (reach < 0 ? extent.begin : extent.end) += reach;
    compact *= tensor.shape[i];
  }
  return extent;
}

void CopyElements(const DLTensor& from, char* to) {
  const size_t bytes = from.dtype.bits / 8;
  if (ffi::IsContiguous(from)) {
    std::memcpy(to, DataOf(from), ffi::GetDataSize(from));
  } else {
    CopyFrom(from, 0, DataOf(from), bytes, to);
  }
}

}  // namespace tvm_ios
