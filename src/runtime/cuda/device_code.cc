// SPDX-License-Identifier: Apache-2.0
#include "runtime/cuda/device_code.h"

#include <tvm/ffi/error.h>
#include <tvm/ffi/memory.h>
#include <tvm/ffi/optional.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>

#include "runtime/arguments.h"

namespace tvm_ios {
namespace cuda {
namespace {

constexpr const char* kKind = "cuda";    // the kind whose loader reads saved code
constexpr const char* kSource = "cuda";  // the format of source code
constexpr const char* kMachine = "cubin";

/*! \brief Return a string in TVM's saved form: its length, then its bytes. */
std::string Saved(std::string_view text) {
  const uint64_t length = text.size();
  std::string result(sizeof(length), '\0');
  std::memcpy(result.data(), &length, sizeof(length));
  return result.append(text);
}

/*! \brief A module that saves as another module does, with other code. */
class DeviceCodeObj : public ffi::ModuleObj {
 public:
  DeviceCodeObj(std::string bytes, ffi::String source)
      : bytes_(std::move(bytes)), source_(std::move(source)) {}

  const char* kind() const final { return kKind; }
  int GetPropertyMask() const final { return ffi::Module::kBinarySerializable; }
  ffi::Bytes SaveToBytes() const final { return ffi::Bytes(bytes_); }

  ffi::String InspectSource(const ffi::String& format) const final {
    return format.empty() || format == kSource ? source_ : ffi::String();
  }

  ffi::Optional<ffi::Function> GetFunction(const ffi::String&) final {
    TVM_FFI_THROW(RuntimeError) << "This is code for a GPU, and CUDA's driver is not installed.";
    TVM_FFI_UNREACHABLE();
  }

 private:
  std::string bytes_;
  ffi::String source_;
};

std::string_view View(const ffi::Bytes& bytes) { return {bytes.data(), bytes.size()}; }

bool BeginsWith(std::string_view text, std::string_view beginning) {
  return text.substr(0, beginning.size()) == beginning;
}

}  // namespace

bool IsSource(const ffi::Module& module) {
  if (std::string_view(module->kind()) != kKind) return false;
  const ffi::Bytes saved = module->SaveToBytes();
  return BeginsWith(View(saved), Saved(kSource));
}

ffi::Module WithMachineCode(const ffi::Module& module, const ffi::Bytes& code) {
  TVM_IOS_REQUIRE(IsSource(module), ValueError) << "the module is no source code for CUDA";
  // The format, the metadata of the functions, the code.
  const ffi::Bytes saved = module->SaveToBytes();
  const ffi::String source = module->InspectSource(kSource);
  const size_t begin = Saved(kSource).size();
  const std::string end = Saved({source.data(), source.size()});
  const std::string_view text = View(saved);
  TVM_FFI_ICHECK(text.size() >= begin + end.size());
  const std::string_view functions = text.substr(begin, text.size() - begin - end.size());
  TVM_FFI_ICHECK(text.substr(begin + functions.size()) == end) << "TVM saves code in another way";
  return ffi::Module(ffi::make_object<DeviceCodeObj>(
      Saved(kMachine).append(functions).append(Saved(View(code))), source));
}

}  // namespace cuda
}  // namespace tvm_ios
