// SPDX-License-Identifier: Apache-2.0
#include "runtime/cpu_stage.h"

#include <tvm/ffi/error.h>
#include <tvm/ffi/extra/c_env_api.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>
#include <string>
#include <utility>

#include "runtime/arguments.h"
#include "runtime/parallel_api.h"

namespace tvm_ios {

namespace ffi = ::tvm::ffi;

namespace {

/*! \brief Threads of the pool that this host thread launches on. */
int NumPoolThreads() {
  static const ffi::Function num_threads = ffi::Function::GetGlobalRequired("runtime.NumThreads");
  return num_threads().cast<int>();
}

}  // namespace

/*! \brief The state that the tasks of one launch share. */
class CpuStage::Launch {
 public:
  explicit Launch(const CpuStage& stage)
      : stage_(stage), api_(stage.num_tasks_ > 1 ? &ParallelApi::Get() : nullptr) {}

  /*! \brief Run the stage once and return when each worker was in which kernel. */
  std::vector<Span> Trace() {
    traces_.resize(stage_.shares_.size());
    for (size_t share = 0; share < traces_.size(); ++share) {
      size_t calls = 0;
      for (const std::vector<Call>& level : stage_.shares_[share]) calls += level.size();
      traces_[share].reserve(calls);  // avoids allocations during the trace
    }
    Run();
    return Spans();
  }

  /*! \brief Runs the stage once; returns the seconds from the first barrier to the last. */
  double Run() {
    if (api_ == nullptr) {
      ParallelGroupEnv alone{nullptr, 1};
      RunTask(0, &alone);
    } else {
      // The tasks store their errors in this object, so a failure is one of the launch itself.
      const int code = api_->launch(Enter, this, stage_.num_tasks_);
      TVM_IOS_REQUIRE(code == 0, RuntimeError) << "TVM's thread pool could not launch the stage";
    }
    if (error_) std::rethrow_exception(error_);
    return std::chrono::duration<double>(end_ - begin_).count();
  }

 private:
  using Clock = std::chrono::steady_clock;

  static int Enter(int task, ParallelGroupEnv* env, void* data) {
    static_cast<Launch*>(data)->RunTask(task, env);
    return 0;
  }

  /*!
   * \brief Run one task. After an error no kernel is called any more, but all barriers are still
   * met.
   */
  void RunTask(int task, ParallelGroupEnv* env) {
    Meet(task, env);
    if (task == 0) begin_ = Clock::now();
    for (size_t level = 0; level < stage_.num_levels_; ++level) {
      for (size_t share = task; share < stage_.shares_.size(); share += env->num_task) {
        RunCalls(share, level);
      }
      Meet(task, env);
    }
    if (task == 0) end_ = Clock::now();
  }

  /*! \brief Wait for the other tasks. */
  void Meet(int task, ParallelGroupEnv* env) {
    if (env->num_task > 1) api_->barrier(task, env);
  }

  void RunCalls(size_t share, size_t level) {
    try {
      for (const Call& call : stage_.shares_[share][level]) {
        if (failed_.load(std::memory_order_relaxed)) return;
        ffi::Any ignored;
        if (!traces_.empty()) traces_[share].push_back({&call, Clock::now(), {}});
        call.kernel->CallPacked(call.args.data(), static_cast<int32_t>(call.args.size()), &ignored);
        if (!traces_.empty()) traces_[share].back().end = Clock::now();
      }
    } catch (...) {
      if (!failed_.exchange(true)) error_ = std::current_exception();
    }
  }

  std::vector<Span> Spans() const {
    Clock::time_point first = Clock::time_point::max();
    for (const std::vector<Moment>& trace : traces_) {
      if (!trace.empty()) first = std::min(first, trace.front().begin);
    }
    const auto since = [first](Clock::time_point time) {
      return std::chrono::duration<double>(time - first).count();
    };
    std::vector<Span> spans;
    for (size_t share = 0; share < traces_.size(); ++share) {
      for (const Moment& moment : traces_[share]) {
        const int64_t kernel = moment.call->kernel - stage_.functions_.data();
        spans.push_back(
            {static_cast<int64_t>(share), kernel, since(moment.begin), since(moment.end)});
      }
    }
    return spans;
  }

  /*! \brief A call with its begin and end. */
  struct Moment {
    const Call* call;
    Clock::time_point begin;
    Clock::time_point end;
  };

  const CpuStage& stage_;
  const ParallelApi* const api_;
  Clock::time_point begin_;  // both written by task 0
  Clock::time_point end_;
  std::atomic<bool> failed_{false};
  std::vector<std::vector<Moment>> traces_;  // by share, if requested; each belongs to one task
  std::exception_ptr error_;  // written by the task that set failed_, read after the launch
};

CpuStage::CpuStage(Kernels kernels, Tensors args, const std::vector<int32_t>& program,
                   int64_t workers)
    : kernels_(std::move(kernels)),
      args_(std::move(args)),
      functions_(kernels_.begin(), kernels_.end()) {
  CheckRange(workers, 1, kMaxWorkers, "the number of workers");
  const size_t columns = NumColumns(workers);
  TVM_IOS_REQUIRE(!program.empty() && program.size() % columns == 0, ValueError)
      << "the stage program is cut off";
  shares_.resize(workers);
  for (size_t row = 0; row < program.size() / columns; ++row) {
    const int32_t* fields = program.data() + row * columns;
    TVM_IOS_REQUIRE(row == 0 || fields[1] >= fields[1 - columns], ValueError)
        << "the levels of the stage program decrease in row " << row;
    if (row == 0 || fields[1] != fields[1 - columns]) {
      for (Share& share : shares_) share.emplace_back();
    }
    AddRow(fields, workers);
  }
  num_levels_ = shares_[0].size();
  if (workers > 1) num_tasks_ = std::min<int>(static_cast<int>(workers), NumPoolThreads());
}

void CpuStage::AddRow(const int32_t* row, int64_t workers) {
  const int32_t kernel = row[0];
  CheckIndex(kernel, static_cast<int64_t>(functions_.size()), "kernel");
  const int32_t* cuts = row + kNumHeaderColumns;
  TVM_IOS_REQUIRE(std::is_sorted(cuts, cuts + workers + 1), ValueError)
      << "the cuts of kernel " << kernel << " decrease";
  for (int64_t worker = 0; worker < workers; ++worker) {
    const int64_t begin = cuts[worker];
    const int64_t end = cuts[worker + 1];
    if (begin == end) continue;
    Call call{&functions_[kernel], {}};
    // The views do not own the tensors: args_ does.
    for (const ffi::Tensor& tensor : args_[kernel]) call.args.emplace_back(tensor);
    call.args.emplace_back(begin);
    call.args.emplace_back(end);
    shares_[worker].back().push_back(std::move(call));
  }
}

double CpuStage::Time() const {
  const double seconds = Launch(*this).Run();
  if (TVMFFIEnvCheckSignals() != 0) throw ffi::EnvErrorAlreadySet();
  return seconds;
}

std::vector<CpuStage::Span> CpuStage::Trace() const { return Launch(*this).Trace(); }

}  // namespace tvm_ios
