// SPDX-License-Identifier: Apache-2.0
/*!
 * \file arguments.h
 * \brief Checks of the arguments of registered functions.
 *
 * The callers are Python and, across RPC, any client of the server. For any arguments, a function
 * either returns a result or throws an error that Python knows, with a one-sentence message. The
 * checks do not restrict which functions may be called: TVM's RPC loads and runs code that is sent
 * to it.
 */
#ifndef TVM_IOS_RUNTIME_ARGUMENTS_H_
#define TVM_IOS_RUNTIME_ARGUMENTS_H_

#include <tvm/ffi/container/shape.h>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/error.h>
#include <tvm/ffi/optional.h>

#include <algorithm>
#include <cstdint>

#include "support/checked.h"

/*!
 * \brief Throw an error of this kind unless the condition holds. Stream the message to the macro.
 */
#define TVM_IOS_REQUIRE(condition, Kind) \
  if (!(condition)) TVM_FFI_THROW(Kind)

namespace tvm_ios {

inline constexpr DLDataType kInt32{kDLInt, 32, 1};
inline constexpr DLDataType kInt64{kDLInt, 64, 1};
inline constexpr DLDataType kUInt64{kDLUInt, 64, 1};
inline constexpr DLDataType kFloat64{kDLFloat, 64, 1};

/*!
 * \brief Require that an object is not null, unless it is optional.
 *
 * Python's None arrives as a null reference of any object type, also of types that are not
 * nullable.
 */
template <typename T>
void CheckDefined(const T& argument, const char* what) {
  if constexpr (::tvm::ffi::use_object_ref_optional_v<T>) {
    TVM_IOS_REQUIRE(argument.defined(), TypeError) << what << " must not be None";
  }
}

/*! \brief Require that a number is from least to most. */
inline void CheckRange(int64_t number, int64_t least, int64_t most, const char* what) {
  TVM_IOS_REQUIRE(least <= number && number <= most, ValueError)
      << what << " must be from " << least << " to " << most << ", got " << number;
}

/*! \brief Require that an index is from 0 up to, but not including, count. */
inline void CheckIndex(int64_t index, int64_t count, const char* what) {
  TVM_IOS_REQUIRE(0 <= index && index < count, IndexError)
      << "there is no " << what << " " << index << ": there are " << count;
}

/*! \brief Require that size bytes from offset on are within the available bytes. */
inline void CheckPart(int64_t offset, int64_t size, int64_t available, const char* what) {
  TVM_IOS_REQUIRE(IsPart(offset, size, available), ValueError)
      << size << " bytes from byte " << offset << " on are not within " << what << " of "
      << available << " bytes";
}

/*! \brief Return the bytes of a tensor of a given shape and type. */
inline int64_t CheckedBytes(::tvm::ffi::ShapeView shape, DLDataType dtype, const char* what) {
  // A size of 0 counts as 1: strides are products of the others.
  CheckedInt bits = int64_t{dtype.bits} * dtype.lanes;
  bool empty = false;
  for (int64_t size : shape) {
    TVM_IOS_REQUIRE(size >= 0, ValueError) << what << " cannot have a size of " << size;
    empty = empty || size == 0;
    bits = bits * std::max(size, int64_t{1});
  }
  bits = bits + 7;
  TVM_IOS_REQUIRE(bits.value().has_value(), ValueError) << what << " has too many bytes";
  return empty ? 0 : *bits.value() / 8;
}

/*! \brief Return the elements of a contiguous host tensor of the given rank and type. */
template <typename T>
const T* HostData(const ::tvm::ffi::TensorView& tensor, int ndim, DLDataType dtype,
                  const char* name) {
  TVM_IOS_REQUIRE(tensor.device().device_type == kDLCPU, ValueError)
      << name << " must be on the host";
  TVM_IOS_REQUIRE(tensor.ndim() == ndim && tensor.IsContiguous(), ValueError)
      << name << " must be contiguous and have " << ndim << " dimensions";
  TVM_IOS_REQUIRE(tensor.dtype() == dtype, ValueError) << name << " has another element type";
  const char* data = static_cast<const char*>(tensor.data_ptr()) + tensor.byte_offset();
  TVM_IOS_REQUIRE(reinterpret_cast<uintptr_t>(data) % alignof(T) == 0, ValueError)
      << name << " must be aligned to its elements";
  return reinterpret_cast<const T*>(data);
}

/*! \brief Return the elements of a contiguous host matrix with the given number of columns. */
template <typename T>
const T* HostMatrix(const ::tvm::ffi::TensorView& tensor, int64_t columns, DLDataType dtype,
                    const char* name) {
  const T* data = HostData<T>(tensor, 2, dtype, name);
  TVM_IOS_REQUIRE(tensor.size(1) == columns, ValueError)
      << name << " must have " << columns << " columns, not " << tensor.size(1);
  return data;
}

}  // namespace tvm_ios
#endif  // TVM_IOS_RUNTIME_ARGUMENTS_H_
