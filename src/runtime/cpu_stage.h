// SPDX-License-Identifier: Apache-2.0
/*!
 * \file cpu_stage.h
 * \brief Runs any composition of compiled CPU kernels, as a compiled network would run it.
 *
 * A kernel computes a range of its operator's tiles, given at run time: kernel(tensors..., begin,
 * end). A stage program partitions the tiles of each kernel among workers, so that candidate stages
 * are timed without being compiled. They run on the threads that run compiled networks, by the same
 * protocol, see claims.h.
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
 * \brief Stages that run one after another; their kernel calls are packed once and made many times.
 *
 * Row i of the program is (kernel, level, units, c_0, ..., c_workers): worker w computes the tiles
 * [c_w, c_{w+1}), unless the range is empty, in at most so many calls of the kernel. Which threads
 * make them is left to them, as in a compiled network. With 0 units the row continues the share of
 * the row before: one thread computes a worker's tiles of all these rows, in order, a call for
 * each. The rows of a level run in order for each worker, without synchronisation among workers.
 * Between levels there are barriers. A kernel must not be parallel itself.
 */
class CpuStage {
 public:
  using Kernels = ::tvm::ffi::Array<::tvm::ffi::Function>;
  using Tensors = ::tvm::ffi::Array<::tvm::ffi::Array<::tvm::ffi::Tensor>>;
  /*! \brief A limit that no machine's cores reach, and that a process can start. */
  static constexpr int64_t kMaxWorkers = 4096;

  /*!
   * \param kernels The kernels.
   * \param args For each kernel its tensors.
   * \param program Its rows one after another; levels and cuts must not decrease.
   * \param workers At least one. Fewer threads than workers share the work of all.
   * \throw ffi::Error, a ValueError or an IndexError, for a program that is none.
   */
  CpuStage(Kernels kernels, Tensors args, const std::vector<int32_t>& program, int64_t workers);

  /*! \brief The numbers in a row of a stage program. */
  static constexpr size_t NumColumns(int64_t workers) { return kNumHeaderColumns + workers + 1; }

  /*! \brief The times of one run. */
  struct Times {
    /*! \brief Seconds of TimeArithmetic on the slowest worker, before and after the run. */
    double speed_before{0};
    double speed_after{0};
    /*!
     * \brief Seconds of each stage; negative if a thread was preempted meanwhile, or did not come.
     */
    std::vector<double> stages;
  };

  /*!
   * \brief Run everything once, as one launch; throw the first error of a kernel.
   *
   * The clock is read inside of the launch: a stage of a lowered model begins and ends inside of
   * the launch that the whole model is.
   *
   * \param levels The number of levels of each stage, in order; together all levels.
   */
  Times Time(const std::vector<int32_t>& levels) const;

  /*! \brief Return the seconds of TimeCopy on the slowest of the workers' threads. */
  static double TimeCopies(int64_t workers);

  /*! \brief Return the seconds of TimeArithmetic on the slowest of the workers' threads. */
  static double TimeArithmetics(int64_t workers);

 private:
  static constexpr size_t kNumHeaderColumns = 3;  // kernel, level, units

  class Launch;

  /*! \brief The calls of one row; the stage holds the lifetimes of its tensors. */
  struct Row {
    const ::tvm::ffi::Function* kernel;
    std::vector<::tvm::ffi::AnyView> tensors;
    int32_t level;  // counted without gaps
    int32_t units;
    std::vector<int32_t> cuts;
  };

  void AddRow(const int32_t* fields, bool new_level);

  Kernels kernels_;
  Tensors args_;
  std::vector<::tvm::ffi::Function> functions_;  // the kernels that rows point to
  std::vector<Row> rows_;
  int64_t workers_;
};

}  // namespace tvm_ios
#endif  // TVM_IOS_RUNTIME_CPU_STAGE_H_
