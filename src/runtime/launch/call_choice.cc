// SPDX-License-Identifier: Apache-2.0
#include "runtime/launch/call_choice.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <iterator>

namespace tvm_ios {
namespace {

constexpr auto kRelaxed = std::memory_order_relaxed;
/*! \brief Programs that take longer have use for helpers. */
constexpr int64_t kLong = 2000000;
/*! \brief Calls of a trial; the first ones wake threads and fill caches, and do not count. */
constexpr int64_t kTrial = CallHistory::kSamples + 4;
/*! \brief The time between two trials, and that in calls, of which trials are then 1%. */
constexpr int64_t kInterval = 500000000;
constexpr int64_t kCallsBetween = 100 * kTrial;
/*! \brief The caller alone leaves cores to others, so that it may be slower by 1/32. */
constexpr int64_t kTolerance = 32;
/*! \brief Between trials a median follows calls by steps of 1/32 of it. */
constexpr int64_t kStep = 32;

bool HelpersAreFaster(const CallHistory& history) {
  const int64_t alone = history.alone.load(kRelaxed);
  return alone - alone / kTolerance > history.helped.load(kRelaxed);
}

/*! \brief Begin a trial and return whether it is one with helpers. */
bool Try(CallHistory* history, bool helpers) {
  history->trial.store(helpers ? kTrial : -kTrial, kRelaxed);
  return helpers;
}

int64_t MedianOfSamples(const CallHistory& history) {
  std::array<int64_t, CallHistory::kSamples> samples{};
  std::transform(std::begin(history.samples), std::end(history.samples), samples.begin(),
                 [](const std::atomic<int64_t>& sample) { return sample.load(kRelaxed); });
  const auto middle = samples.begin() + samples.size() / 2;
  std::nth_element(samples.begin(), middle, samples.end());
  return *middle;
}

/*! \brief Note a call of a trial of which ``left`` calls are left with it. */
void NoteTrial(CallHistory* history, bool helped, int64_t duration, int64_t left) {
  history->trial.store(helped ? left - 1 : 1 - left, kRelaxed);
  if (left > CallHistory::kSamples) return;
  history->samples[left - 1].store(duration, kRelaxed);
  if (left == 1) (helped ? history->helped : history->alone).store(MedianOfSamples(*history));
}

}  // namespace

bool ChooseHelpers(CallHistory* history, int64_t now) {
  const int64_t trial = history->trial.load(kRelaxed);
  if (trial != 0) return trial > 0;
  const int64_t usual = UsualDuration(*history);
  if (history->helped.load(kRelaxed) == 0) return Try(history, true);
  if (usual > kLong) return true;
  if (history->alone.load(kRelaxed) == 0) return Try(history, false);
  const bool faster = HelpersAreFaster(*history);
  if (now < history->next_trial.load(kRelaxed)) return faster;
  const int64_t first = history->next_trial.load(kRelaxed);
  history->next_trial.store(now + std::max(kInterval, kCallsBetween * usual), kRelaxed);
  return first == 0 ? faster : Try(history, !faster);
}

void NoteCall(CallHistory* history, bool helped, int64_t duration) {
  const int64_t trial = history->trial.load(kRelaxed);
  if (trial != 0) {
    // A call that was to have helpers and got none says nothing.
    if (helped == (trial > 0)) NoteTrial(history, helped, duration, std::abs(trial));
    return;
  }
  std::atomic<int64_t>& median = helped ? history->helped : history->alone;
  const int64_t before = median.load(kRelaxed);
  if (before == 0) return;
  const int64_t step = before / kStep + 1;
  median.store(before + std::clamp(duration - before, -step, step), kRelaxed);
}

int64_t UsualDuration(const CallHistory& history) {
  const int64_t alone = history.alone.load(kRelaxed);
  const int64_t helped = history.helped.load(kRelaxed);
  return alone == 0 || helped == 0 ? std::max(alone, helped) : std::min(alone, helped);
}

}  // namespace tvm_ios
