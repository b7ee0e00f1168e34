// SPDX-License-Identifier: Apache-2.0
/*!
 * \file stage_launch.h
 * \brief Launches that are timed: all threads are there before they begin, and losses are noted.
 */
#ifndef TVM_IOS_RUNTIME_STAGE_LAUNCH_H_
#define TVM_IOS_RUNTIME_STAGE_LAUNCH_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "runtime/launch/program.h"

namespace tvm_ios {

/*!
 * \brief The place where the threads of a launch meet.
 *
 * Helpers that sleep take some microseconds to come, and the others would compute their work
 * meanwhile. So the first unit of each column waits here.
 */
class Gathering {
 public:
  /*! \brief Returned by units of a launch that is tried again. */
  static constexpr int32_t kAgain = 2;

  /*! \param num_columns The columns of the program. */
  explicit Gathering(int64_t num_columns);

  /*!
   * \brief Run a program, whose first parts call Meet; again if not all threads came.
   *
   * The last of several tries is completed without those that do not come. With one column the
   * calling thread is alone, and needs no pool.
   *
   * \param self The argument of the program's functions.
   * \return What HelperPool::Run does.
   */
  int32_t Run(const ClaimProgram* program, void* self);

  /*! \brief Wait for the other threads; return 0, or kAgain, which its unit returns, too. */
  int32_t Meet();

  /*! \brief Whether a thread has not come to the last try. */
  bool incomplete() const { return incomplete_.load(std::memory_order_relaxed); }

 private:
  int32_t expected_;
  bool last_try_{false};
  std::atomic<int32_t> come_{0};
  std::atomic<bool> incomplete_{false};
};

/*! \brief In which stages of a launch a thread was preempted. */
class PreemptionLog {
 public:
  explicit PreemptionLog(size_t num_stages);

  /*! \brief Note that what this thread did until now belongs to no stage. */
  void Begin() const;
  /*! \brief Note that this thread begins a unit of a stage. */
  void Enter(int32_t stage) const;
  /*!
   * \brief Note that this thread ends a unit of a stage.
   * \param last Whether it is the last one; else short ones are looked at together.
   */
  void Leave(int32_t stage, bool last);

  /*! \brief Return whether a thread was preempted in a stage. */
  bool preempted(size_t stage) const { return stages_[stage].load(std::memory_order_relaxed); }

 private:
  const int64_t launch_;
  std::vector<std::atomic<bool>> stages_;
};

}  // namespace tvm_ios
#endif  // TVM_IOS_RUNTIME_STAGE_LAUNCH_H_
