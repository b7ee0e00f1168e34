// SPDX-License-Identifier: Apache-2.0
/*!
 * \file claims.h
 * \brief The protocol by which threads share the work of a launch: units are claimed, not owned.
 *
 * Each column has a word of three numbers: its current part, the units of that part that were
 * claimed, and those that are completed. A thread claims units of its home column first, else of
 * the column that is furthest behind. Who completes the last unit of a part makes the next part
 * current. A thread that was taken off its core holds nothing up but the units that it has claimed.
 *
 * The tasks of TVM's thread pool follow the same protocol where a library runs without this one,
 * see python/tvm_ios/backend/cpu/code/launch_loop.py.
 */
#ifndef TVM_IOS_RUNTIME_LAUNCH_CLAIMS_H_
#define TVM_IOS_RUNTIME_LAUNCH_CLAIMS_H_

#include <atomic>
#include <cstdint>
#include <memory>

#include "runtime/launch/program.h"

namespace tvm_ios {

/*! \brief The state of a launch. */
class Claims {
 public:
  /*! \brief Begin a launch; no thread may be in Work. */
  void Begin(const ClaimProgram* program, void** arguments);

  /*! \brief Claim whole parts, as no other thread will come. */
  void StayAlone() { alone_ = true; }

  /*!
   * \brief Claim and run units until no unit is left, for a thread that is at home in a column.
   * \param stays Whether it returns only when all units of the launch are completed. Other threads
   *  leave when their home column is completed and nothing is left to claim for some time.
   * \param thread The thread, as CurrentThread returns it; others may move it to another core. 0 if
   *  they may not.
   */
  void Work(int32_t home, bool stays, int32_t thread = 0);

  /*! \brief Return whether all units are completed. */
  bool Completed() const { return unfinished_.load(std::memory_order_acquire) == 0; }

  /*! \brief Return 0, or what a function returned that failed; for the thread that stayed. */
  int32_t error() const { return error_.load(std::memory_order_relaxed); }

  /*! \brief Units that were claimed by threads from other columns than their own. */
  int64_t stolen() const { return stolen_.load(std::memory_order_relaxed); }

  /*! \brief How often a thread that waited gave its core to the one that it waited for. */
  int64_t lent() const { return lent_.load(std::memory_order_relaxed); }

 private:
  /*! \brief Two cache lines, which are fetched together. */
  static constexpr size_t kLine = 128;
  static constexpr uint32_t kNobody = UINT32_MAX;

  struct alignas(kLine) Column {
    /*! \brief The current part, its claimed units, and its completed units: 32, 16, 16 bits. */
    std::atomic<uint64_t> word{0};
    /*! \brief How many parts must be completed before a thread that sleeps is woken. */
    std::atomic<uint32_t> wanted{kNobody};
    /*! \brief Whether a thread is at home here. */
    std::atomic<bool> attended{false};
    /*! \brief That thread, and the column of the units that it runs. */
    std::atomic<int32_t> thread{0};
    std::atomic<int32_t> runs{-1};
  };

  /*! \brief What a thread waits for: parts that a column has to complete. */
  struct Target {
    int32_t column;
    uint32_t completed;
  };

  /*! \brief A thread that may have lost its core: its home, and for how long it had run when. */
  struct Suspect {
    int32_t column{-1};
    int32_t thread{0};
    int64_t processor_time{0};
    int64_t since{0};
  };

  uint32_t NumCompleted(int32_t column) const {
    return static_cast<uint32_t>(columns_[column].word.load(std::memory_order_acquire) >> 32);
  }
  /*! \brief Note that a thread comes that is at home in a column, or that it leaves. */
  void Attend(int32_t column, int32_t thread, bool present);
  /*! \brief Steal units if nobody else would run them soon, after so many looks at one's own. */
  bool MaySteal(int32_t home, int looks);
  /*! \brief Return whether a part may begin; else ``missing`` is what it waits for. */
  bool Ready(const Part& part, Target* missing) const;
  /*! \brief Claim units of a column's current part and run them; return whether there were any. */
  bool RunSome(int32_t column, int32_t home);
  /*! \brief Run units of the column that is furthest behind, ``unattended`` ones or all. */
  bool Steal(int32_t home, bool unattended);
  void RunUnits(const Part& part, int32_t begin, int32_t end, int32_t home);
  void Call(const Unit& first, const Unit& last, int32_t home);
  /*! \brief Make the next part of a column the current one, and wake who waits for it. */
  void Advance(int32_t column, uint32_t completed);
  /*!
   * \brief Return what a thread waits for whose home column it cannot continue.
   *
   * If that is completed, nothing, or for a thread that stays, all parts of some other column.
   */
  Target Blocking(int32_t home, bool stays) const;
  /*! \brief Return who runs units that are waited for. */
  Suspect Suspected(const Target& target, int32_t home) const;
  /*! \brief Return whether a suspect still runs units, and has had no core since. */
  bool StandsStill(const Suspect& suspect) const;
  /*! \brief Give one's core to a thread that has lost its own. */
  void LendCore(const Suspect& suspect);
  /*! \brief Sleep until the target is reached, or until there may be something to claim. */
  void Sleep(const Target& wanted);

  const ClaimProgram* program_{nullptr};
  void** arguments_{nullptr};
  bool alone_{false};
  int32_t capacity_{0};
  std::unique_ptr<Column[]> columns_;
  /*! \brief Columns at which threads are at home, and columns that are not completed. */
  alignas(kLine) std::atomic<int32_t> attended_{0};
  std::atomic<int32_t> unfinished_{0};
  std::atomic<int32_t> error_{0};
  std::atomic<int64_t> stolen_{0};
  std::atomic<int64_t> lent_{0};
};

}  // namespace tvm_ios
#endif  // TVM_IOS_RUNTIME_LAUNCH_CLAIMS_H_
