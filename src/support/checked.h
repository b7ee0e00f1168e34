// SPDX-License-Identifier: Apache-2.0
/*!
 * \file checked.h
 * \brief Arithmetic on untrusted numbers.
 */
#ifndef TVM_IOS_SUPPORT_CHECKED_H_
#define TVM_IOS_SUPPORT_CHECKED_H_

#include <cstdint>
#include <optional>

namespace tvm_ios {

/*! \brief An integer, or nothing once a result did not fit into 64 bits. */
class CheckedInt {
 public:
  CheckedInt(int64_t value) : value_(value) {}  // NOLINT(runtime/explicit): it is a number

  std::optional<int64_t> value() const { return value_; }

  friend CheckedInt operator+(CheckedInt a, CheckedInt b) {
    return Apply(a, b,
                 [](int64_t x, int64_t y, int64_t* z) { return __builtin_add_overflow(x, y, z); });
  }
  friend CheckedInt operator*(CheckedInt a, CheckedInt b) {
    return Apply(a, b,
                 [](int64_t x, int64_t y, int64_t* z) { return __builtin_mul_overflow(x, y, z); });
  }

 private:
  template <typename Operation>
  static CheckedInt Apply(CheckedInt a, CheckedInt b, Operation operation) {
    CheckedInt result = 0;
    int64_t value = 0;
    if (!a.value_ || !b.value_ || operation(*a.value_, *b.value_, &value)) {
      result.value_.reset();
    } else {
      result.value_ = value;
    }
    return result;
  }

  std::optional<int64_t> value_;
};

/*! \brief Return whether [offset, offset + size) lies in [0, available). */
constexpr bool IsPart(int64_t offset, int64_t size, int64_t available) {
  return offset >= 0 && size >= 0 && offset <= available && size <= available - offset;
}

}  // namespace tvm_ios
#endif  // TVM_IOS_SUPPORT_CHECKED_H_
