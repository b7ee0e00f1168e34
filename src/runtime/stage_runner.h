// SPDX-License-Identifier: Apache-2.0
/*!
 * \file stage_runner.h
 * \brief Kernels and memory on the machine where stages are timed.
 *
 * The runner belongs to the process in which the stages run: the searching process, or a session
 * of TVM's RPC server. RPC passes only numbers and bytes, so callers refer to kernels and memory by
 * number.
 */
#ifndef TVM_IOS_RUNTIME_STAGE_RUNNER_H_
#define TVM_IOS_RUNTIME_STAGE_RUNNER_H_

#include <tvm/ffi/function.h>
#include <tvm/ffi/string.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "runtime/amx.h"
#include "runtime/cpu_stage.h"
#include "runtime/kernel_table.h"

namespace tvm_ios {

/*! \brief Kernels, memory, and the stages composed of them. */
class StageRunner {
 public:
  StageRunner() { PermitAmx(); }

  /*!
   * \brief Allocate memory, filled with zeros.
   * \return Its number.
   * \throw ffi::Error, a MemoryError, if not enough is available.
   */
  int64_t AddMemory(int64_t num_bytes);

  /*! \brief Write bytes into a memory. */
  void Write(int64_t memory, int64_t offset, const ::tvm::ffi::Bytes& bytes);

  /*! \brief Fill a memory with repeated bytes. */
  void Fill(int64_t memory, const ::tvm::ffi::Bytes& bytes);

  /*! \brief The kernels: kernel(tensors..., begin, end). */
  KernelTable& kernels() { return kernels_; }

  /*!
   * \brief Run stages one after another, repeat times, and time each of them.
   * \param program The rows of CpuStage, int32; their kernel numbers refer to calls.
   * \param stages The number of levels of each stage, int32.
   * \param calls For each run and each call, int64: a kernel's number, and for each of its tensors
   *  the number of a memory and a byte offset in it.
   * \param workers At least one.
   * \param repeat At least one.
   * \return Seconds: of a copy before and after all runs, and for each run of arithmetic before and
   *  after it, and of each stage. The seconds of a stage are negative if a thread was preempted in
   *  it or did not come.
   */
  std::vector<double> Time(const ::tvm::ffi::Bytes& program, const ::tvm::ffi::Bytes& stages,
                           const ::tvm::ffi::Bytes& calls, int64_t workers, int64_t repeat) const;

 private:
  /*! \brief Compose the stage of each run and pass it to use. */
  void ForEachRun(const ::tvm::ffi::Bytes& program, const ::tvm::ffi::Bytes& calls, int64_t workers,
                  int64_t repeat, const std::function<void(const CpuStage&)>& use) const;

  MemoryTable memories_;
  KernelTable kernels_;
};

}  // namespace tvm_ios
#endif  // TVM_IOS_RUNTIME_STAGE_RUNNER_H_
