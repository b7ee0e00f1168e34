// SPDX-License-Identifier: Apache-2.0
/*!
 * \file pool.h
 * \brief The threads that help callers to compute their launches.
 *
 * A caller computes its launch itself; helpers that are free join it. Nobody waits for a helper
 * that does not come, nor for one to leave. A helper that lost its core during a short launch is
 * left out for some milliseconds. Helpers look for work for some time, then they sleep.
 */
#ifndef TVM_IOS_RUNTIME_LAUNCH_POOL_H_
#define TVM_IOS_RUNTIME_LAUNCH_POOL_H_

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "runtime/launch/helper.h"
#include "runtime/launch/recent_callers.h"

namespace tvm_ios {

/*! \brief What a pool has done since it began. */
struct HelperCounts {
  /*! \brief Launches of several columns, and those of them that helpers were invited to. */
  int64_t launches;
  int64_t helped;
  /*! \brief Units of the launches with helpers, and those computed from another column. */
  int64_t units;
  int64_t stolen;
  /*! \brief How often a thread gave its core to one that it waited for. */
  int64_t lent;
};

/*! \brief The helpers of the process. */
class HelperPool {
 public:
  /*! \brief A limit that no machine's cores reach. */
  static constexpr int32_t kMaxThreads = 4096;

  /*! \brief Return the pool of this process, which is never destroyed; a forked one has its own. */
  static HelperPool& Get();

  explicit HelperPool(int32_t max_threads);
  HelperPool(const HelperPool&) = delete;
  HelperPool& operator=(const HelperPool&) = delete;

  /*! \brief Use at most so many threads, callers included. */
  void SetMaxThreads(int32_t threads) { max_threads_.store(threads); }
  int32_t max_threads() const { return max_threads_.load(std::memory_order_relaxed); }

  /*!
   * \brief Run a program; return 0, or what a function returned that failed.
   *
   * A calling thread that is cancelled meanwhile ends after it.
   */
  int32_t Run(const ClaimProgram* program, void** arguments);

  HelperCounts counts() const;

  /*! \brief Wait until no helper looks at a program, whose launches have ended. */
  void WaitForGuests(const ClaimProgram* program);

 private:
  friend class LaunchOfThread;

  /*! \brief Return how many helpers a caller may invite, one of so many that call at present. */
  int32_t NumHelpers(int32_t num_columns, int32_t callers, int64_t now);
  int32_t Invite(Launch* launch, int32_t num_helpers, int64_t now);
  void Dismiss(Launch* launch, int64_t begin, int64_t end);
  void Count(const ClaimProgram& program, bool helped, const Claims& claims);
  Helper* At(int32_t number);
  /*! \brief Return a launch that no helper looks at. */
  Launch* Take();
  void GiveBack(Launch* launch);

  const int64_t id_;  // another pool may have the same address later
  std::atomic<int32_t> max_threads_;
  std::atomic<int32_t> callers_{0};
  RecentCallers recent_callers_;
  /*! \brief Whether callers have taken all cores at the same time, and until when that counts. */
  std::atomic<bool> crowded_{false};
  std::atomic<int64_t> crowded_until_{0};
  std::atomic<int64_t> launched_{0};
  std::atomic<int64_t> helped_{0};
  std::atomic<int64_t> units_{0};
  std::atomic<int64_t> stolen_{0};
  std::atomic<int64_t> lent_{0};
  std::array<std::atomic<Helper*>, kMaxThreads> helpers_{};
  std::mutex mutex_;  // of the creation of helpers, and of what follows
  std::vector<std::unique_ptr<Launch>> launches_;
  std::vector<Launch*> free_;
  std::vector<std::unique_ptr<Helper>> created_;  // they end before the launches that they look at
};

}  // namespace tvm_ios
#endif  // TVM_IOS_RUNTIME_LAUNCH_POOL_H_
