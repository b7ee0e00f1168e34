// SPDX-License-Identifier: Apache-2.0
/*!
 * \file library.h
 * \brief A library of NVIDIA's that is opened on first use, and its functions.
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

/*! \brief An owning handle of an open library. */
using LibraryHandle = std::unique_ptr<void, LibraryCloser>;

/*!
 * \brief One function of a library; it returns 0 or the number of an error.
 * \tparam Words Describes the library's errors: Throw(name, result) throws a DeviceError.
 */
template <typename Words, typename... Args>
class LibraryCall {
 public:
  using Function = int (*)(Args...);

  LibraryCall() = default;
  LibraryCall(const char* name, Function function, Words words)
      : name_(name), function_(function), words_(words) {}

  /*! \throw DeviceError if the library reports an error; the message says what to do. */
  void operator()(Args... args) const { Check(Try(args...)); }
  /*! \brief Call the library and return its result. */
  int Try(Args... args) const noexcept { return function_(args...); }
  /*! \throw DeviceError if a result of Try is an error. */
  void Check(int result) const {
    if (result != 0) words_.Throw(name_, result);
  }

 private:
  const char* name_{nullptr};
  Function function_{nullptr};
  Words words_{};
};

/*! \brief Call a library's destroy function; errors are ignored at this point. */
template <typename Library, typename Handle, auto kDestroy>
struct Destroyer {
  void operator()(Handle handle) const noexcept { (Library::Get().*kDestroy).Try(handle); }
};

/*! \throw DeviceError because this call ran out of memory. */
[[noreturn]] void ThrowOutOfMemory(const char* call);

}  // namespace cuda
}  // namespace tvm_ios
#endif  // TVM_IOS_RUNTIME_CUDA_LIBRARY_H_
