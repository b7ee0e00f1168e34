// SPDX-License-Identifier: Apache-2.0
#include "runtime/cuda/cudnn.h"

#include <dlfcn.h>
#include <tvm/ffi/error.h>

#include <array>
#include <mutex>

#include "support/error.h"

namespace tvm_ios {
namespace cuda {
namespace {

constexpr size_t kOldestVersion = 9;
constexpr const char* kInstall = "install version 9 with: pip install nvidia-cudnn-cu13";

// Statuses are numbered by category, a thousand each.
constexpr int kBadParameter = 2000;
constexpr int kNotSupported = 3000;
constexpr int kInternal = 4000;
constexpr int kNoHostMemory = 4003;
constexpr int kNoDeviceMemory = 4004;

/*! \brief The file to load, unless Use names another one. */
struct Source {
  std::mutex mutex;
  std::string library{"libcudnn.so.9"};
};

Source& TheSource() {
  static Source source;
  return source;
}

/*! \brief Return "CUDNN_STATUS_X (reason)", with the reason if cuDNN reports one. */
std::string Describe(int status, const CudnnWords& words) {
  std::array<char, 512> text{};
  words.last(text.data(), text.size());
  const std::string last(text.data());
  const std::string line = last.substr(0, last.find('\n'));
  return words.name(status) + (line.empty() ? "" : " (" + line + ")");
}

}  // namespace

void CudnnWords::Throw(const char* call, int status) const {
  if (status == kNoHostMemory || status == kNoDeviceMemory) ThrowOutOfMemory(call);
  const std::string what = Describe(status, *this);
  TVM_FFI_ICHECK(status < kBadParameter || status >= kNotSupported)
      << call << " got an invalid argument: " << what;
  if (status >= kNotSupported && status < kInternal) {
    throw UnsupportedError("cuDNN cannot compute this convolution on this device, " +
                           std::string(call) + " returned " + what +
                           ": choose another algorithm, or do without cuDNN");
  }
  throw DeviceError(std::string(call) + " failed with " + what +
                    ": look at the device with nvidia-smi, and start this program anew");
}

void Cudnn::Use(const std::string& library) {
  Source& source = TheSource();
  const std::lock_guard<std::mutex> lock(source.mutex);
  source.library = library;
}

const Cudnn& Cudnn::Get() {
  // Never unloaded: handles and descriptors may be destroyed after any static object.
  static const Cudnn& cudnn = *[] {
    Source& source = TheSource();
    const std::lock_guard<std::mutex> lock(source.mutex);
    return std::make_unique<const Cudnn>(source.library).release();
  }();
  return cudnn;
}

Cudnn::Cudnn(const std::string& library)
    : library_(dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL)) {
  if (library_ == nullptr) {
    throw DeviceError("cuDNN cannot be loaded (" + std::string(dlerror()) + "): " + kInstall +
                      ", or do without it");
  }
  CheckVersion();
  words_.name = reinterpret_cast<decltype(words_.name)>(Find("cudnnGetErrorString"));
  words_.last = reinterpret_cast<decltype(words_.last)>(Find("cudnnGetLastErrorString"));
  Bind("cudnnCreate", &cudnnCreate);
  Bind("cudnnDestroy", &cudnnDestroy);
  Bind("cudnnSetStream", &cudnnSetStream);
  BindDescriptors();
  BindConvolutions();
}

/*!
 * \brief Check the version before the other functions are looked up, so that the error for an old
 * library names its version.
 */
void Cudnn::CheckVersion() {
  version_ = "of an unknown version";
  const size_t number = reinterpret_cast<size_t (*)()>(Find("cudnnGetVersion"))();
  // 9.28.0 is 92800, 8.9.7 was 8907.
  const size_t major = number / (number < 10000 ? 1000 : 10000);
  const size_t minor = number / 100 % (number < 10000 ? 10 : 100);
  version_ =
      std::to_string(major) + "." + std::to_string(minor) + "." + std::to_string(number % 100);
  if (major < kOldestVersion) {
    throw DeviceError("cuDNN " + version_ + " is too old: " + kInstall);
  }
}

void Cudnn::BindDescriptors() {
  Bind("cudnnCreateTensorDescriptor", &cudnnCreateTensorDescriptor);
  Bind("cudnnDestroyTensorDescriptor", &cudnnDestroyTensorDescriptor);
  Bind("cudnnSetTensor4dDescriptor", &cudnnSetTensor4dDescriptor);
  Bind("cudnnCreateFilterDescriptor", &cudnnCreateFilterDescriptor);
  Bind("cudnnDestroyFilterDescriptor", &cudnnDestroyFilterDescriptor);
  Bind("cudnnSetFilter4dDescriptor", &cudnnSetFilter4dDescriptor);
  Bind("cudnnCreateConvolutionDescriptor", &cudnnCreateConvolutionDescriptor);
  Bind("cudnnDestroyConvolutionDescriptor", &cudnnDestroyConvolutionDescriptor);
  Bind("cudnnSetConvolution2dDescriptor", &cudnnSetConvolution2dDescriptor);
  Bind("cudnnSetConvolutionGroupCount", &cudnnSetConvolutionGroupCount);
  Bind("cudnnSetConvolutionMathType", &cudnnSetConvolutionMathType);
  Bind("cudnnCreateActivationDescriptor", &cudnnCreateActivationDescriptor);
  Bind("cudnnDestroyActivationDescriptor", &cudnnDestroyActivationDescriptor);
  Bind("cudnnSetActivationDescriptor", &cudnnSetActivationDescriptor);
}

void Cudnn::BindConvolutions() {
  Bind("cudnnGetConvolutionForwardAlgorithmMaxCount", &cudnnGetConvolutionForwardAlgorithmMaxCount);
  Bind("cudnnGetConvolutionForwardAlgorithm_v7", &cudnnGetConvolutionForwardAlgorithm);
  Bind("cudnnGetConvolutionForwardWorkspaceSize", &cudnnGetConvolutionForwardWorkspaceSize);
  Bind("cudnnConvolutionForward", &cudnnConvolutionForward);
  Bind("cudnnConvolutionBiasActivationForward", &cudnnConvolutionBiasActivationForward);
}

void* Cudnn::Find(const char* name) const {
  void* symbol = dlsym(library_.get(), name);
  if (symbol == nullptr) {
    throw DeviceError("cuDNN " + version_ + " has no " + name + ": " + kInstall);
  }
  return symbol;
}

template <typename... Args>
void Cudnn::Bind(const char* name, CudnnCall<Args...>* call) const {
  using Function = typename CudnnCall<Args...>::Function;
  *call = CudnnCall<Args...>(name, reinterpret_cast<Function>(Find(name)), words_);
}

}  // namespace cuda
}  // namespace tvm_ios
