// SPDX-License-Identifier: Apache-2.0
#include "cuda/image.h"

#include <dlfcn.h>
#include <elf.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>

namespace fake_driver {
namespace {

bool IsSharedObject(const void* bytes) {
  return bytes != nullptr && std::memcmp(bytes, ELFMAG, SELFMAG) == 0;
}

/*! \brief Its section headers are what a linker writes last. */
size_t SizeOf(const Elf64_Ehdr& header) {
  return header.e_shoff + size_t{header.e_shnum} * header.e_shentsize;
}

/*! \brief Opens a shared object that lies in memory. */
void* Open(const void* bytes) {
  const int file = memfd_create("kernels", MFD_CLOEXEC);
  if (file < 0) return nullptr;
  const auto* next = static_cast<const char*>(bytes);
  size_t left = SizeOf(*static_cast<const Elf64_Ehdr*>(bytes));
  while (left > 0) {
    const ssize_t written = write(file, next, left);
    if (written <= 0) break;
    next += written;
    left -= static_cast<size_t>(written);
  }
  void* library = dlopen(("/proc/self/fd/" + std::to_string(file)).c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) std::fprintf(stderr, "fake driver: %s\n", dlerror());
  // The file stays open: dlopen takes what has the path of a loaded library for that library.
  return library;
}

}  // namespace

void Image::Closer::operator()(void* library) const { dlclose(library); }

Image::Image(const void* bytes) {
  if (!IsSharedObject(bytes)) return;
  library_.reset(Open(bytes));
  broken_ = library_ == nullptr;
}

Function* Image::Find(const std::string& name) {
  const auto found = functions_.find(name);
  if (found != functions_.end()) return &found->second;
  const Kernel* kernel = nullptr;
  if (library_ != nullptr) {
    kernel = static_cast<const Kernel*>(dlsym(library_.get(), (name + "_fake_driver").c_str()));
    if (kernel == nullptr) return nullptr;
  }
  return &functions_.emplace(name, Function{name, kernel}).first->second;
}

}  // namespace fake_driver
