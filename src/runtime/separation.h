// SPDX-License-Identifier: Apache-2.0
/*!
 * \file separation.h
 * \brief Separation of the tasks of a launch, so that no two of them start on the same core.
 *
 * Linux may wake a worker that slept on the core of its caller, although another core is idle, and
 * moves it only after milliseconds. Compiled networks separate their tasks in the same way, see
 * python/tvm_ios/backend/cpu/code/separation.py.
 */
#ifndef TVM_IOS_RUNTIME_SEPARATION_H_
#define TVM_IOS_RUNTIME_SEPARATION_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace tvm_ios {

/*!
 * \brief The cores on which the tasks of one launch started.
 *
 * On systems other than Linux, nothing is known of cores, and no thread is moved.
 */
class TakenCores {
 public:
  static constexpr size_t kMaxCores = 1024;  // as in cpu_set_t

  /*! \brief Mark the core of this thread as taken; return whether it was taken before. */
  bool Take();

  /*!
   * \brief Take the core of this thread. If another task has it, move to a free one first.
   *
   * The thread may run on all of its cores again afterwards.
   */
  void Separate();

  /*! \brief Return whether a core is taken. */
  bool taken(size_t core) const { return (words_[core / 64].load() >> (core % 64)) & 1; }

 private:
  std::array<std::atomic<uint64_t>, kMaxCores / 64> words_{};
};

}  // namespace tvm_ios
#endif  // TVM_IOS_RUNTIME_SEPARATION_H_
