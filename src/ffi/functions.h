// SPDX-License-Identifier: Apache-2.0
/*!
 * \file functions.h
 * \brief Registration of functions with TVM FFI.
 */
#ifndef TVM_IOS_FFI_FUNCTIONS_H_
#define TVM_IOS_FFI_FUNCTIONS_H_

#include <tvm/ffi/error.h>
#include <tvm/ffi/function.h>
#include <tvm/ffi/reflection/registry.h>

#include <new>
#include <stdexcept>
#include <utility>

#include "runtime/arguments.h"
#include "support/error.h"

namespace tvm_ios {

namespace ffi = ::tvm::ffi;

/*! \brief Make a call and convert its exceptions to those of the same name in Python. */
template <typename Call>
auto Guard(Call call) {
  constexpr const char* kNoMemory = "there is not enough memory for a call of this size";
  try {
    return call();
  } catch (const Error& error) {
    throw ffi::Error(error.kind(), error.what(), "");
  } catch (const std::bad_alloc&) {
    throw ffi::Error("MemoryError", kNoMemory, "");
  } catch (const std::length_error&) {
    throw ffi::Error("MemoryError", kNoMemory, "");
  }
}

/*! \brief Wrap a function so that it rejects None and throws errors that Python knows. */
template <typename Result, typename... Args>
auto Guarded(Result (*function)(Args...)) {
  return [function](Args... args) -> Result {
    (CheckDefined(args, "an argument"), ...);
    return Guard([&]() -> Result { return function(std::forward<Args>(args)...); });
  };
}

/*! \brief A registrar of functions, each of them guarded. */
class Functions {
 public:
  /*! \param function A function, or a lambda without captures. */
  template <typename Function, typename... Extra>
  Functions& def(const char* name, Function function, Extra&&... extra) {
    definitions_.def(name, Guarded(+function), std::forward<Extra>(extra)...);
    return *this;
  }

  template <typename... Extra>
  Functions& def_packed(const char* name, void (*function)(ffi::PackedArgs, ffi::Any*),
                        Extra&&... extra) {
    definitions_.def_packed(
        name,
        [function](ffi::PackedArgs args, ffi::Any* result) {
          Guard([&] { function(args, result); });
        },
        std::forward<Extra>(extra)...);
    return *this;
  }

 private:
  ffi::reflection::GlobalDef definitions_;
};

}  // namespace tvm_ios
#endif  // TVM_IOS_FFI_FUNCTIONS_H_
