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
#include <utility>

#include "runtime/arguments.h"
#include "runtime/reference_speed.h"
#include "runtime/stage_launch.h"
#include "runtime/stage_tables.h"

namespace tvm_ios {

namespace ffi = ::tvm::ffi;

namespace {

/*! \brief Times known work on all threads at once. */
template <double (*kWork)()>
class WorkOnAll {
 public:
  explicit WorkOnAll(int64_t workers) : gathering_(workers), seconds_(workers) {}

  /*! \brief Return the seconds on the slowest thread. */
  double Time() {
    StageTables tables(static_cast<int64_t>(seconds_.size()));
    tables.AddToEach(0);
    gathering_.Run(tables.Finish({Work}), this);
    return *std::max_element(seconds_.begin(), seconds_.end());
  }

 private:
  static int32_t Work(void** arguments, int32_t worker, int32_t /*end*/, int32_t /*ahead*/) {
    auto* self = static_cast<WorkOnAll*>(arguments[0]);
    if (const int32_t error = self->gathering_.Meet(); error != 0) return error;
    self->seconds_[worker] = kWork();
    return 0;
  }

  Gathering gathering_;
  std::vector<double> seconds_;
};

template <double (*kWork)()>
double TimeOnAll(int64_t workers) {
  CheckRange(workers, 1, CpuStage::kMaxWorkers, "the number of workers");
  return WorkOnAll<kWork>(workers).Time();
}

}  // namespace

/*! \brief The state that the threads of one launch share. */
class CpuStage::Launch {
 public:
  /*! \param levels The number of levels of each stage. */
  Launch(const CpuStage& stage, const std::vector<int32_t>& levels)
      : stage_(stage),
        levels_(levels),
        gathering_(stage.workers_),
        log_(levels.size()),
        ends_(levels.size() + 1),
        before_(stage.workers_),
        after_(stage.workers_) {
    for (size_t s = 0; s < levels.size(); ++s) {
      stage_of_level_.insert(stage_of_level_.end(), levels[s], static_cast<int32_t>(s));
    }
  }

  /*! \brief Run everything once and return the times. */
  Times Time() {
    StageTables tables(stage_.workers_);
    AddParts(&tables);
    gathering_.Run(tables.Finish({Before, Call, Mark, After}), this);
    if (error_) std::rethrow_exception(error_);
    return Collect();
  }

 private:
  using Clock = std::chrono::steady_clock;
  enum Function : int32_t { kBefore, kCall, kMark, kAfter };
  static constexpr int32_t kFailed = 1;

  void AddParts(StageTables* tables) const {
    tables->AddToEach(kBefore);
    tables->AddMark(kMark, 0);
    for (size_t row = 0; row < stage_.rows_.size(); ++row) {
      const int32_t level = stage_.rows_[row].level;
      if (row > 0 && level != stage_.rows_[row - 1].level) EndLevel(level - 1, tables);
      AddRow(static_cast<int32_t>(row), tables);
    }
    EndLevel(static_cast<int32_t>(stage_of_level_.size()) - 1, tables);
    tables->AddToEach(kAfter);
  }

  void AddRow(int32_t number, StageTables* tables) const {
    const Row& row = stage_.rows_[number];
    if (row.units > 0) tables->BeginShare();
    for (int64_t worker = 0; worker < stage_.workers_; ++worker) {
      const int32_t begin = row.cuts[worker];
      const int32_t end = row.cuts[worker + 1];
      if (begin < end) tables->Add(worker, kCall, begin, end, number, row.units);
    }
  }

  /*! \brief Add a barrier, with a mark where the stage ends. */
  void EndLevel(size_t level, StageTables* tables) const {
    const int32_t own = stage_of_level_[level];
    if (level + 1 < stage_of_level_.size() && stage_of_level_[level + 1] == own) {
      tables->AddBarrier();
    } else {
      tables->AddMark(kMark, own + 1);
    }
  }

  static Launch* Of(void** arguments) { return static_cast<Launch*>(arguments[0]); }

  static int32_t Before(void** arguments, int32_t worker, int32_t /*end*/, int32_t /*ahead*/) {
    Launch* launch = Of(arguments);
    if (const int32_t error = launch->gathering_.Meet(); error != 0) return error;
    launch->before_[worker] = TimeArithmetic();
    launch->log_.Begin();
    return 0;
  }

  static int32_t Mark(void** arguments, int32_t /*begin*/, int32_t /*end*/, int32_t number) {
    Of(arguments)->ends_[number] = Clock::now();
    return 0;
  }

  static int32_t After(void** arguments, int32_t worker, int32_t /*end*/, int32_t /*ahead*/) {
    Launch* launch = Of(arguments);
    const auto last = static_cast<int32_t>(launch->levels_.size()) - 1;
    launch->log_.Enter(last);
    launch->log_.Leave(last, /*last=*/true);
    launch->after_[worker] = TimeArithmetic();
    return 0;
  }

  /*! \brief Call a row's kernel. After an error no unit is run any more. */
  static int32_t Call(void** arguments, int32_t begin, int32_t end, int32_t row) {
    Launch* launch = Of(arguments);
    const Row& call = launch->stage_.rows_[row];
    const int32_t own = launch->stage_of_level_[call.level];
    launch->log_.Enter(own);
    try {
      std::vector<ffi::AnyView> args;
      args.reserve(call.tensors.size() + 2);
      args.assign(call.tensors.begin(), call.tensors.end());
      args.emplace_back(int64_t{begin});
      args.emplace_back(int64_t{end});
      ffi::Any ignored;
      call.kernel->CallPacked(args.data(), static_cast<int32_t>(args.size()), &ignored);
    } catch (...) {
      if (!launch->failed_.exchange(true)) launch->error_ = std::current_exception();
      return kFailed;
    }
    launch->log_.Leave(own, /*last=*/false);
    return 0;
  }

  Times Collect() const {
    Times times;
    Clock::time_point begin = ends_[0];
    for (size_t stage = 0; stage < levels_.size(); ++stage) {
      const Clock::time_point end = levels_[stage] > 0 ? ends_[stage + 1] : begin;
      const double seconds = std::chrono::duration<double>(end - begin).count();
      const bool disturbed = gathering_.incomplete() || log_.preempted(stage);
      times.stages.push_back(disturbed ? -seconds : seconds);
      begin = end;
    }
    times.speed_before = *std::max_element(before_.begin(), before_.end());
    times.speed_after = *std::max_element(after_.begin(), after_.end());
    return times;
  }

  const CpuStage& stage_;
  const std::vector<int32_t>& levels_;
  std::vector<int32_t> stage_of_level_;
  Gathering gathering_;
  PreemptionLog log_;
  std::vector<Clock::time_point> ends_;  // the beginning of the first stage, and each stage's end
  std::vector<double> before_;           // by worker
  std::vector<double> after_;
  std::atomic<bool> failed_{false};
  std::exception_ptr error_;  // written by the thread that set failed_, read after the launch
};

CpuStage::CpuStage(Kernels kernels, Tensors args, const std::vector<int32_t>& program,
                   int64_t workers)
    : kernels_(std::move(kernels)),
      args_(std::move(args)),
      functions_(kernels_.begin(), kernels_.end()),
      workers_(workers) {
  CheckRange(workers, 1, kMaxWorkers, "the number of workers");
  const size_t columns = NumColumns(workers);
  TVM_IOS_REQUIRE(!program.empty() && program.size() % columns == 0, ValueError)
      << "the stage program is cut off";
  for (size_t row = 0; row < program.size() / columns; ++row) {
    const int32_t* fields = program.data() + row * columns;
    TVM_IOS_REQUIRE(row == 0 || fields[1] >= fields[1 - columns], ValueError)
        << "the levels of the stage program decrease in row " << row;
    AddRow(fields, row == 0 || fields[1] != fields[1 - columns]);
  }
}

void CpuStage::AddRow(const int32_t* fields, bool new_level) {
  const int32_t kernel = fields[0];
  const int32_t units = fields[2];
  CheckIndex(kernel, static_cast<int64_t>(functions_.size()), "kernel");
  CheckRange(units, new_level ? 1 : 0, ClaimProgram::kMaxUnits, "the number of units");
  const int32_t* cuts = fields + kNumHeaderColumns;
  TVM_IOS_REQUIRE(std::is_sorted(cuts, cuts + workers_ + 1), ValueError)
      << "the cuts of kernel " << kernel << " decrease";
  const int32_t before = rows_.empty() ? -1 : rows_.back().level;
  Row row{
      &functions_[kernel], {}, before + (new_level ? 1 : 0), units, {cuts, cuts + workers_ + 1}};
  // The views do not own the tensors: args_ does.
  for (const ffi::Tensor& tensor : args_[kernel]) row.tensors.emplace_back(tensor);
  rows_.push_back(std::move(row));
}

CpuStage::Times CpuStage::Time(const std::vector<int32_t>& levels) const {
  const int32_t num_levels = rows_.back().level + 1;
  for (int32_t count : levels) CheckRange(count, 0, num_levels, "the number of a stage's levels");
  TVM_IOS_REQUIRE(std::accumulate(levels.begin(), levels.end(), int64_t{0}) == num_levels,
                  ValueError)
      << "the stages together do not have the " << num_levels << " levels of the program";
  Times times = Launch(*this, levels).Time();
  if (TVMFFIEnvCheckSignals() != 0) throw ffi::EnvErrorAlreadySet();
  return times;
}

double CpuStage::TimeCopies(int64_t workers) { return TimeOnAll<TimeCopy>(workers); }

double CpuStage::TimeArithmetics(int64_t workers) { return TimeOnAll<TimeArithmetic>(workers); }

}  // namespace tvm_ios
