// SPDX-License-Identifier: Apache-2.0
/*!
 * \file image.h
 * \brief Modules of kernels: shared objects for the host, or nothing at all.
 */
#ifndef TVM_IOS_TESTS_CUDA_IMAGE_H_
#define TVM_IOS_TESTS_CUDA_IMAGE_H_

#include <list>
#include <map>
#include <memory>
#include <string>

#include "cuda/kernel.h"

namespace fake_driver {

/*! \brief A kernel that was asked for. */
struct Function {
  std::string name;
  const Kernel* kernel;      // none: a launch of it computes nothing
  unsigned dynamic_bytes{};  // how much dynamic shared memory was asked for beforehand
};

/*! \brief A module that was loaded. */
class Image {
 public:
  /*! \brief An image that is no shared object has every kernel, and they compute nothing. */
  explicit Image(const void* bytes);
  /*! \brief Whether it is a shared object that could not be opened; the reason is on stderr. */
  bool broken() const { return broken_; }
  /*! \return No function where the image has no such kernel. */
  Function* Find(const std::string& name);

 private:
  struct Closer {
    void operator()(void* library) const;
  };
  std::unique_ptr<void, Closer> library_;
  bool broken_{false};
  std::map<std::string, Function> functions_;
};

}  // namespace fake_driver
#endif  // TVM_IOS_TESTS_CUDA_IMAGE_H_
