// SPDX-License-Identifier: Apache-2.0
/*!
 * \file library.h
 * \brief A library of NVIDIA's that is opened when it is first needed, and its functions.
 */
#ifndef TVM_IOS_RUNTIME_CUDA_LIBRARY_H_
#define TVM_IOS_RUNTIME_CUDA_LIBRARY_H_

#include <dlfcn.h>

#include <memory>

namespace tvm_ios {
namespace cuda {

struct LibraryCloser {
  void operator()(void* library) const { dlclose(library); }
};

/*! \brief What dlopen gave; closed by whoever owns it. */
using LibraryHandle = std::unique_ptr<void, LibraryCloser>;

/*!
 * \brief One function of a library. It returns 0, or the number of an error.
 *
 * \tparam Words Knows the library's words for its errors: Throw(name, result) throws a DeviceError.
 */
template <typename Words, typename... Args>
class LibraryCall {
 public:
  using Function = int (*)(Args...);

  LibraryCall() = default;
  LibraryCall(const char* name, Function function, Words words)
      : name_(name), function_(function), words_(words) {}

  /*! \throw DeviceError where the library reports an error; it says what to do. */
  void operator()(Args... args) const { Check(Try(args...)); }
  /*! \brief Calls the library and returns what it reports. */
  int Try(Args... args) const noexcept { return function_(args...); }
  /*! \throw DeviceError for a result of Try that is an error. */
  void Check(int result) const {
    if (result != 0) words_.Throw(name_, result);
  }

 private:
  const char* name_{nullptr};
  Function function_{nullptr};
  Words words_{};
};

/*! \brief Calls the function of a library that destroys; an error at this point helps nobody. */
template <typename Library, typename Handle, auto kDestroy>
struct Destroyer {
  void operator()(Handle handle) const noexcept { (Library::Get().*kDestroy).Try(handle); }
};

/*! \throw DeviceError that says that there is no memory for this call. */
[[noreturn]] void ThrowOutOfMemory(const char* call);

}  // namespace cuda
}  // namespace tvm_ios
#endif  // TVM_IOS_RUNTIME_CUDA_LIBRARY_H_
