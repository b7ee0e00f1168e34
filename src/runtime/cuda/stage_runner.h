// SPDX-License-Identifier: Apache-2.0
/*!
 * \file stage_runner.h
 * \brief Kernels and memory of a CUDA device, on which stages are checked and timed.
 *
 * As tvm_ios::StageRunner, the runner belongs to the process in which the stages run, and callers
 * refer to kernels and memory by number.
 */
#ifndef TVM_IOS_RUNTIME_CUDA_STAGE_RUNNER_H_
#define TVM_IOS_RUNTIME_CUDA_STAGE_RUNNER_H_

#include <tvm/ffi/string.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "runtime/cuda/stage.h"
#include "runtime/kernel_table.h"

namespace tvm_ios {
namespace cuda {

/*!
 * \brief Kernels, memory of a device, and the stages composed of them.
 *
 * Stages are passed as int64 numbers: for each stage its number of streams and of calls, and for
 * each call a kernel's number, a stream, the number of earlier calls that it waits for, these, and
 * for each of its tensors the number of a memory and a byte offset in it.
 */
class StageRunner {
 public:
  /*! \throw DeviceError if there is no such device, or if it gives this process no context. */
  explicit StageRunner(int64_t device_id);

  /*!
   * \brief Allocate memory of the device, whose content is undefined.
   * \return Its number.
   * \throw DeviceError if not enough is available.
   */
  int64_t AddMemory(int64_t num_bytes);

  /*! \brief Write bytes into a memory. */
  void Write(int64_t memory, int64_t offset, const ::tvm::ffi::Bytes& bytes);

  /*! \brief Fill a memory with repeated bytes. */
  void Fill(int64_t memory, const ::tvm::ffi::Bytes& bytes);

  /*! \brief Read bytes of a memory. */
  ::tvm::ffi::Bytes Read(int64_t memory, int64_t offset, int64_t size) const;

  /*! \brief The kernels: kernel(tensors...). */
  KernelTable& kernels() { return kernels_; }

  /*! \brief Run stages one after another, and wait for the last. */
  void Run(const ::tvm::ffi::Bytes& stages) const;

  /*!
   * \brief Time runs of a stage, see cuda::Time.
   * \param runs The stage once for each run.
   * \param filler The number of a memory as large as the L2 cache, or -1 for none.
   */
  std::vector<double> Time(const ::tvm::ffi::Bytes& runs, int64_t repeat, int64_t filler) const;

  /*! \brief Trace stages, see cuda::Trace. */
  std::vector<double> Trace(const ::tvm::ffi::Bytes& stages, int64_t repeat) const;

 private:
  std::vector<Stage> Read(const ::tvm::ffi::Bytes& stages) const;
  /*! \brief Copy between the host and the device, and wait for the copy. */
  void Copy(void* to, const void* from, int64_t size) const;

  DLDevice device_;
  MemoryTable memories_;
  KernelTable kernels_;
};

}  // namespace cuda
}  // namespace tvm_ios
#endif  // TVM_IOS_RUNTIME_CUDA_STAGE_RUNNER_H_
