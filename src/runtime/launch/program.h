// SPDX-License-Identifier: Apache-2.0
/*!
 * \file program.h
 * \brief What the threads of a launch compute: tables that compiled libraries hold as constants.
 *
 * python/tvm_ios/backend/cpu/code/launch_tables.py writes them.
 */
#ifndef TVM_IOS_RUNTIME_LAUNCH_PROGRAM_H_
#define TVM_IOS_RUNTIME_LAUNCH_PROGRAM_H_

#include <atomic>
#include <cstdint>

namespace tvm_ios {

/*!
 * \brief What is known of the calls of a program, in zeroed memory of the library.
 *
 * Calls on several threads may lose each other's updates, which does no harm.
 */
struct CallHistory {
  /*! \brief The calls of a trial whose times count. */
  static constexpr int kSamples = 16;

  /*! \brief Nanoseconds that a call takes with the caller alone and with helpers; 0 if unknown. */
  std::atomic<int64_t> alone;
  std::atomic<int64_t> helped;
  /*! \brief The calls that are left of a trial with helpers, or, negative, of one without. */
  std::atomic<int64_t> trial;
  /*! \brief When the slower way is tried again. */
  std::atomic<int64_t> next_trial;
  std::atomic<int64_t> samples[kSamples];
};

static_assert(sizeof(CallHistory) <= 32 * sizeof(int64_t), "a library has room for it");

/*!
 * \brief The smallest piece of work: a call of a function on a range of tiles.
 *
 * Where its part is no chain, the units of a part are calls of one function on consecutive tiles,
 * so that one call can compute several of them.
 */
struct Unit {
  int32_t function;
  int32_t begin;
  int32_t end;
  /*! \brief Passed to the function with the last unit of a call: which weights are read next. */
  int32_t ahead;
};

/*! \brief What a column computes between two waits. */
struct Part {
  int32_t first_unit;
  int32_t num_units;
  int32_t first_wait;
  int32_t num_waits;
  /*! \brief The row of ClaimProgram::barriers that must be reached before; -1 if none. */
  int32_t barrier;
  /*! \brief Whether the units depend on each other, so that one thread computes all, in order. */
  int32_t chain;
};

/*! \brief A part begins when a column has completed so many of its parts. */
struct PartWait {
  int32_t column;
  int32_t completed;
};

/*!
 * \brief Columns of parts. The parts of a column run in order, whichever thread runs them.
 *
 * A column is what a worker was planned to compute, from its core's cache.
 */
struct ClaimProgram {
  /*! \brief Returns 0, or another number if it failed. */
  using Function = int32_t (*)(void** arguments, int32_t begin, int32_t end, int32_t ahead);

  static constexpr int32_t kVersion = 1;
  /*! \brief Units of a part; their numbers have 16 bits in Claims. */
  static constexpr int32_t kMaxUnits = 65535;

  int32_t version;
  int32_t num_columns;
  /*! \brief The argument in which units are recorded; -1 if they are not. */
  int32_t record;
  int32_t reserved;
  /*! \brief The parts of column c are those from first_part[c] to first_part[c + 1]. */
  const int32_t* first_part;
  const Part* parts;
  const Unit* units;
  const PartWait* waits;
  /*! \brief For each barrier the parts that each column must have completed. */
  const int32_t* barriers;
  const Function* functions;
  CallHistory* history;

  int32_t num_parts(int32_t column) const { return first_part[column + 1] - first_part[column]; }
  int32_t num_units() const {
    const int32_t size = first_part[num_columns];
    return size == 0 ? 0 : parts[size - 1].first_unit + parts[size - 1].num_units;
  }
  const Part& part(int32_t column, int32_t index) const {
    return parts[first_part[column] + index];
  }
};

/*! \brief What is recorded of a unit; those that are computed with another one begin at 0. */
struct UnitRecord {
  /*! \brief Nanoseconds of CLOCK_MONOTONIC. */
  int64_t begin;
  int64_t end;
  /*! \brief The column at which the thread was at home. */
  int64_t thread;
};

}  // namespace tvm_ios
#endif  // TVM_IOS_RUNTIME_LAUNCH_PROGRAM_H_
