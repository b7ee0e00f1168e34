// SPDX-License-Identifier: Apache-2.0
/*!
 * \file cpu_stage.h
 * \brief Runs any composition of compiled CPU kernels, as the lowered model would run it.
 *
 * A kernel computes a range of its operator's tiles, given at run time: kernel(tensors..., begin,
 * end). A stage program divides the tiles of each kernel among workers, so that candidate stages
 * are timed without being compiled.
 */
#ifndef TVM_IOS_RUNTIME_CPU_STAGE_H_
#define TVM_IOS_RUNTIME_CPU_STAGE_H_

#include <tvm/ffi/container/array.h>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

#include <cstdint>
#include <vector>

namespace tvm_ios {

/*!
 * \brief A stage whose kernel calls are packed once and made many times.
 *
 * Row i of the program is (kernel, level, c_0, ..., c_workers): worker w calls the kernel on the
 * tiles [c_w, c_{w+1}), if there are any. The rows of a level run in order on each worker, without
 * synchronisation; between levels all workers meet. A kernel must not be parallel itself.
 */
class CpuStage {
 public:
  using Kernels = ::tvm::ffi::Array<::tvm::ffi::Function>;
  using Tensors = ::tvm::ffi::Array<::tvm::ffi::Array<::tvm::ffi::Tensor>>;
  /*! \brief More than any machine has cores, and few enough to begin with. */
  static constexpr int64_t kMaxWorkers = 4096;
  /*! \brief More than anybody waits for. */
  static constexpr int64_t kMaxRuns = 1'000'000;

  /*!
   * \param kernels The kernels.
   * \param args For each kernel its tensors.
   * \param program int32 [rows, 2 + workers + 1]; levels and cuts must not decrease.
   * \param workers At least one. More than the thread pool has share its threads.
   * \throw ffi::Error, a ValueError, a TypeError or an IndexError, for arguments that are none.
   */
  CpuStage(Kernels kernels, Tensors args, ::tvm::ffi::TensorView program, int64_t workers);

  /*! \brief Runs the stage once, as one launch; throws the first error of a kernel. */
  void Run() const;

  /*!
   * \brief Seconds per run, repeat times, each from number runs between two looks at the clock.
   *
   * The runs of one repetition are one launch, and the clock is looked at inside of it: a stage of
   * a lowered model begins and ends at a barrier of the launch that the whole model is.
   */
  std::vector<double> Time(int64_t number, int64_t repeat) const;

  /*! \brief When a worker was in a kernel, in seconds since the first of all calls began. */
  struct Span {
    int64_t worker;
    int64_t kernel;
    double begin;
    double end;
  };

  /*! \brief Runs the stage once and says when each call was made, worker by worker in order. */
  std::vector<Span> Trace() const;

 private:
  class Launch;

  /*! \brief A call without its kernel's tensors' lifetimes, which the stage holds. */
  struct Call {
    const ::tvm::ffi::Function* kernel;
    std::vector<::tvm::ffi::AnyView> args;
  };
  /*! \brief The calls of one worker, by level. */
  using Share = std::vector<std::vector<Call>>;

  void AddRow(const int32_t* row, int64_t workers);

  Kernels kernels_;
  Tensors args_;
  std::vector<::tvm::ffi::Function> functions_;  // the kernels, where calls can point at them
  std::vector<Share> shares_;
  size_t num_levels_{0};
  int num_tasks_{1};
};

}  // namespace tvm_ios
#endif  // TVM_IOS_RUNTIME_CPU_STAGE_H_
