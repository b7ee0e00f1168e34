// SPDX-License-Identifier: Apache-2.0
#include "runtime/cpu_stage.h"

#include <tvm/ffi/error.h>
#include <tvm/ffi/extra/c_env_api.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <exception>
#include <numeric>
#include <string>
#include <utility>

#include "runtime/arguments.h"
#include "runtime/parallel_api.h"
#include "runtime/reference_speed.h"

namespace tvm_ios {

namespace ffi = ::tvm::ffi;

namespace {

constexpr std::chrono::microseconds kCheckEvery{100};  // a preemption takes milliseconds

/*! \brief Tasks of a launch for so many workers, on the pool of this host thread. */
int NumTasks(int64_t workers) {
  if (workers == 1) return 1;
  static const ffi::Function num_threads = ffi::Function::GetGlobalRequired("runtime.NumThreads");
  return std::min(static_cast<int>(workers), num_threads().cast<int>());
}

void CheckLaunched(int code) {
  // The tasks store their errors themselves, so a failure is one of the launch.
  TVM_IOS_REQUIRE(code == 0, RuntimeError) << "TVM's thread pool could not launch the stage";
}

/*! \brief Return the seconds of known work on the slowest of the workers' threads. */
template <double (*kWork)()>
double TimeOnAll(int64_t workers) {
  CheckRange(workers, 1, CpuStage::kMaxWorkers, "the number of workers");
  std::vector<double> seconds(NumTasks(workers));
  const auto enter = [](int task, ParallelGroupEnv* /*env*/, void* data) {
    (*static_cast<std::vector<double>*>(data))[task] = kWork();
    return 0;
  };
  if (seconds.size() == 1) {
    enter(0, nullptr, &seconds);
  } else {
    const int tasks = static_cast<int>(seconds.size());
    CheckLaunched(ParallelApi::Get().LaunchOnDistinctCores(enter, &seconds, tasks));
  }
  return *std::max_element(seconds.begin(), seconds.end());
}

}  // namespace

/*! \brief The state that the tasks of one launch share. */
class CpuStage::Launch {
 public:
  explicit Launch(const CpuStage& stage)
      : stage_(stage), api_(stage.num_tasks_ > 1 ? &ParallelApi::Get() : nullptr) {}

  /*! \brief Run everything once and return the times of stages with so many levels each. */
  Times Time(const std::vector<int32_t>& levels) {
    ends_.resize(stage_.num_levels_);
    for (size_t stage = 0, level = 0; stage < levels.size(); level += levels[stage++]) {
      if (levels[stage] > 0) ends_[level + levels[stage] - 1] = static_cast<int>(stage) + 1;
    }
    timestamps_.resize(levels.size() + 1);
    meters_.resize(stage_.num_tasks_);
    for (Meter& meter : meters_) meter.preempted.resize(levels.size());
    Run();
    return Collect(levels);
  }

  void Run() {
    if (api_ == nullptr) {
      ParallelGroupEnv alone{nullptr, 1};
      RunTask(0, &alone);
    } else {
      CheckLaunched(api_->LaunchOnDistinctCores(Enter, this, stage_.num_tasks_));
    }
    if (error_) std::rethrow_exception(error_);
  }

 private:
  using Clock = std::chrono::steady_clock;

  static int Enter(int task, ParallelGroupEnv* env, void* data) {
    static_cast<Launch*>(data)->RunTask(task, env);
    return 0;
  }

  /*! \brief What one task notes while stages are timed. */
  struct Meter {
    double before{0};
    double after{0};
    std::vector<char> preempted;  // by stage
    size_t checked{0};            // stages whose preemptions are known
    int64_t preemptions{0};
    Clock::time_point last;
  };

  /*!
   * \brief Run one task. After an error no kernel is called any more, but the task still waits at
   * all barriers.
   */
  void RunTask(int task, ParallelGroupEnv* env) {
    if (!meters_.empty()) meters_[task].before = TimeArithmetic();
    Barrier(task, env);
    if (!meters_.empty()) {
      meters_[task].preemptions = NumPreemptions();
      meters_[task].last = Clock::now();
    }
    if (task == 0 && !timestamps_.empty()) timestamps_[0] = Clock::now();
    for (size_t level = 0; level < stage_.num_levels_; ++level) {
      for (size_t share = task; share < stage_.shares_.size(); share += env->num_task) {
        RunCalls(share, level);
      }
      Barrier(task, env);
      if (!ends_.empty() && ends_[level] > 0) EndStage(task, ends_[level]);
    }
    if (!meters_.empty()) meters_[task].after = TimeArithmetic();
  }

  /*! \brief Note when a stage ended, and whether this task was preempted in it. */
  void EndStage(int task, size_t stages) {
    const Clock::time_point now = Clock::now();
    if (task == 0) timestamps_[stages] = now;
    Meter& meter = meters_[task];
    if (now - meter.last < kCheckEvery && stages < meter.preempted.size()) return;
    const int64_t preemptions = NumPreemptions();
    if (preemptions != meter.preemptions) {
      std::fill(meter.preempted.begin() + meter.checked, meter.preempted.begin() + stages, 1);
    }
    meter.checked = stages;
    meter.preemptions = preemptions;
    meter.last = now;
  }

  Times Collect(const std::vector<int32_t>& levels) const {
    Times times;
    Clock::time_point begin = timestamps_[0];
    for (size_t stage = 0; stage < levels.size(); ++stage) {
      const Clock::time_point end = levels[stage] > 0 ? timestamps_[stage + 1] : begin;
      times.stages.push_back(std::chrono::duration<double>(end - begin).count());
      begin = end;
    }
    for (const Meter& meter : meters_) {
      times.speed_before = std::max(times.speed_before, meter.before);
      times.speed_after = std::max(times.speed_after, meter.after);
      for (size_t stage = 0; stage < levels.size(); ++stage) {
        if (meter.preempted[stage] != 0) times.stages[stage] = -std::abs(times.stages[stage]);
      }
    }
    return times;
  }

  /*! \brief Wait for the other tasks. */
  void Barrier(int task, ParallelGroupEnv* env) {
    if (env->num_task > 1) api_->barrier(task, env);
  }

  void RunCalls(size_t share, size_t level) {
    try {
      for (const Call& call : stage_.shares_[share][level]) {
        if (failed_.load(std::memory_order_relaxed)) return;
        ffi::Any ignored;
        call.kernel->CallPacked(call.args.data(), static_cast<int32_t>(call.args.size()), &ignored);
      }
    } catch (...) {
      if (!failed_.exchange(true)) error_ = std::current_exception();
    }
  }

  const CpuStage& stage_;
  const ParallelApi* const api_;
  std::vector<int> ends_;  // by level: the stages that have ended after it, or 0
  std::vector<Clock::time_point> timestamps_;  // before the first stage and after each, by task 0
  std::vector<Meter> meters_;                  // by task, if times were requested
  std::atomic<bool> failed_{false};
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
  num_tasks_ = NumTasks(workers);
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

CpuStage::Times CpuStage::Time(const std::vector<int32_t>& levels) const {
  for (int32_t count : levels) CheckRange(count, 0, num_levels_, "the number of a stage's levels");
  TVM_IOS_REQUIRE(std::accumulate(levels.begin(), levels.end(), size_t{0}) == num_levels_,
                  ValueError)
      << "the stages together do not have the " << num_levels_ << " levels of the program";
  Times times = Launch(*this).Time(levels);
  if (TVMFFIEnvCheckSignals() != 0) throw ffi::EnvErrorAlreadySet();
  return times;
}

double CpuStage::TimeCopies(int64_t workers) { return TimeOnAll<TimeCopy>(workers); }

double CpuStage::TimeArithmetics(int64_t workers) { return TimeOnAll<TimeArithmetic>(workers); }

}  // namespace tvm_ios
