// SPDX-License-Identifier: Apache-2.0
/*!
 * \file objects.h
 * \brief Handles, descriptors and convolutions as the fake cuDNN knows them.
 *
 * It is stricter than cuDNN, which may crash where this refuses: a handle that two threads use at
 * once, a handle of another device, a descriptor that was destroyed.
 */
#ifndef TVM_IOS_TESTS_CUDNN_OBJECTS_H_
#define TVM_IOS_TESTS_CUDNN_OBJECTS_H_

#include <atomic>
#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "cudnn/convolution.h"
#include "cudnn/cudnn.h"

namespace fake_driver {

enum Status : int {
  kOk = 0,
  kBadParameter = 2000,
  kUnsupported = 3000,
  kNoDeviceMemory = 4004,
  kDriverFailed = 5001,
};
enum Mathematics : int { kDefault = 0, kTensorOp = 1, kConversion = 2, kFma = 3 };
enum Activation : int { kRelu = 1, kIdentity = 5 };

// Of eight algorithms it has three, with the numbers that cuDNN gives them.
inline constexpr int kNumAlgorithms = 8;
inline constexpr int kImplicitGemm = 0, kImplicitPrecompGemm = 1, kGemm = 2;

struct Context {
  int device;
  void* memory;
  Handle stream{nullptr};
  std::atomic<bool> busy{false};
};

struct Filter : Tensor4d {};

struct ConvolutionOf {
  Windows windows;
  int math{-1};
};

struct ActivationOf {
  int mode{-1};
};

/*! \brief What cudnnGetLastErrorString says in this thread. */
std::string& LastError();

/*! \brief Writes down something that a correct program never does; returns the status. */
int Misuse(const std::string& what, int status = kBadParameter);

/*! \brief The device of the current context; -1 if there is none. */
int CurrentDevice();

/*! \brief The objects of one kind that were made and not destroyed. */
template <typename T>
class Objects {
 public:
  int Create(Object* made, std::unique_ptr<T> object) {
    const std::lock_guard<std::mutex> lock(mutex_);
    *made = object.get();
    objects_.emplace(*made, std::move(object));
    return kOk;
  }
  std::unique_ptr<T> Remove(Object object) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = objects_.find(object);
    if (found == objects_.end()) return nullptr;
    std::unique_ptr<T> removed = std::move(found->second);
    objects_.erase(found);
    return removed;
  }
  T* Find(Object object) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = objects_.find(object);
    return found == objects_.end() ? nullptr : found->second.get();
  }

 private:
  std::mutex mutex_;
  std::map<Object, std::unique_ptr<T>> objects_;
};

/*! \brief All objects of a kind; never destroyed, as the project's outlive static objects. */
template <typename T>
Objects<T>& All() {
  static Objects<T>& objects = *std::make_unique<Objects<T>>().release();
  return objects;
}

template <typename T>
int Destroy(Object object) {
  return All<T>().Remove(object) == nullptr ? Misuse("nothing to destroy") : kOk;
}

/*! \brief Sets what an object is. */
template <typename T, typename Change>
int Set(Object object, Change change) {
  T* found = All<T>().Find(object);
  if (found == nullptr) return Misuse("nothing to set");
  change(*found);
  return kOk;
}

/*! \brief The objects of one convolution. */
struct Problem {
  Tensor4d* x;
  Filter* w;
  ConvolutionOf* convolution;
  Tensor4d* y;

  Problem(Object of_x, Object of_w, Object of_convolution, Object of_y)
      : x(All<Tensor4d>().Find(of_x)),
        w(All<Filter>().Find(of_w)),
        convolution(All<ConvolutionOf>().Find(of_convolution)),
        y(All<Tensor4d>().Find(of_y)) {}

  int Check() const;
  bool Has(int algorithm) const;
  size_t Workspace(int algorithm) const;
};

/*! \brief A handle in a call: of the current device, and of no other call at the same time. */
class Use {
 public:
  explicit Use(Object handle);
  ~Use() {
    if (mine_) context_->busy = false;
  }
  Use(const Use&) = delete;
  Use& operator=(const Use&) = delete;

  int status() const { return status_; }
  Context& context() { return *context_; }

 private:
  Context* context_;
  int status_{kOk};
  bool mine_{false};
};

/*! \brief Launches a convolution. */
int Run(Object handle, const Problem& problem, int algorithm, void* workspace, size_t bytes,
        const Operands& operands, float alpha2, bool relu);

}  // namespace fake_driver
#endif  // TVM_IOS_TESTS_CUDNN_OBJECTS_H_
