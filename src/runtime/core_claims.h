// SPDX-License-Identifier: Apache-2.0
/*!
 * \file core_claims.h
 * \brief Claims of cores by the tasks of a launch, so that no two tasks start on the same core.
 *
 * Linux may wake a worker that slept on the core of its caller, although another core is idle, and
 * moves it only after milliseconds. The tasks of compiled networks claim cores in the same way,
 * see python/tvm_ios/backend/cpu/code/core_claims.py.
 */
#ifndef TVM_IOS_RUNTIME_CORE_CLAIMS_H_
#define TVM_IOS_RUNTIME_CORE_CLAIMS_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace tvm_ios {

/*!
 * \brief The cores that the tasks of one launch have claimed.
 *
 * On systems other than Linux, nothing is known of cores, and no thread is moved.
 */
class CoreClaims {
 public:
  static constexpr size_t kMaxCores = 1024;  // as in cpu_set_t

  /*! \brief Claim the core of this thread; return whether it was claimed before. */
  bool Claim();

  /*!
   * \brief Claim the core of this thread. If another task has claimed it, move to a free one first.
   *
   * The thread may run on all of its cores again afterwards.
   */
  void ClaimDistinct();

  /*! \brief Return whether a core is claimed. */
  bool claimed(size_t core) const { return (words_[core / 64].load() >> (core % 64)) & 1; }

 private:
  std::array<std::atomic<uint64_t>, kMaxCores / 64> words_{};
};

}  // namespace tvm_ios
#endif  // TVM_IOS_RUNTIME_CORE_CLAIMS_H_
