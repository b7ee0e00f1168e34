// SPDX-License-Identifier: Apache-2.0
#include "runtime/launch/claims.h"

#include <algorithm>
#include <chrono>
#include <exception>

#include "runtime/cores.h"
#include "runtime/launch/clock.h"
#include "runtime/launch/futex.h"

namespace tvm_ios {
namespace {

/*! \brief The error of a function that threw: TVM's runtime does so if it gets no memory. */
constexpr int32_t kThrown = 1;
constexpr uint64_t kClaimed = uint64_t{1} << 16;
constexpr uint64_t kMask = 0xffff;

/*! \brief Looks at the home column before units of a thread that is present are stolen. */
constexpr int kPatience = 16;
/*! \brief Looks at the home column between two at all others. */
constexpr int kLooksToSteal = 4;
/*! \brief Looks between two readings of the clock. */
constexpr int kLooks = 32;
/*! \brief How long a thread looks before it sleeps, which costs it and who wakes it microseconds.
 */
constexpr int64_t kSpin = 30000;
/*! \brief After such a time, a thread that sleeps looks for units to steal. */
constexpr std::chrono::microseconds kSleep{500};
/*!
 * \brief A thread that has not run for so long has lost its core to another one. Interrupts, and
 * hypervisors, take a core for up to 60 us at a time, a thousand times a second.
 */
constexpr int64_t kAway = 80000;

/*! \brief Call a function: no exception may end a helper, or leave a launch that others are in. */
int32_t Guarded(ClaimProgram::Function function, void** arguments, int32_t begin, int32_t end,
                int32_t ahead) {
  try {
    return function(arguments, begin, end, ahead);
  } catch (const std::exception&) {
    return kThrown;
  }
}

}  // namespace

void Claims::Begin(const ClaimProgram* program, void** arguments) {
  program_ = program;
  arguments_ = arguments;
  alone_ = false;
  if (program->num_columns > capacity_) {
    columns_ = std::make_unique<Column[]>(program->num_columns);
    capacity_ = program->num_columns;
  }
  int32_t unfinished = 0;
  for (int32_t c = 0; c < program->num_columns; ++c) {
    columns_[c].word.store(0, std::memory_order_relaxed);
    columns_[c].wanted.store(kNobody, std::memory_order_relaxed);
    columns_[c].attended.store(false, std::memory_order_relaxed);
    columns_[c].runs.store(-1, std::memory_order_relaxed);
    if (program->num_parts(c) > 0) ++unfinished;
  }
  attended_.store(0, std::memory_order_relaxed);
  error_.store(0, std::memory_order_relaxed);
  stolen_.store(0, std::memory_order_relaxed);
  lent_.store(0, std::memory_order_relaxed);
  unfinished_.store(unfinished, std::memory_order_release);
}

void Claims::Work(int32_t home, bool stays, int32_t thread) {
  Attend(home, thread, true);
  int64_t since = 0;
  Suspect suspect;
  for (int looks = 0; !Completed(); ++looks) {
    if (RunSome(home, home) || MaySteal(home, looks)) {
      looks = -1;
      suspect.column = -1;
      continue;
    }
    Pause();
    if (looks == kPatience) since = Now();
    if (looks <= kPatience || looks % kLooks != 0) continue;
    const int64_t waited = Now() - since;
    if (waited < kSpin / 2) continue;
    const Target target = Blocking(home, stays);
    if (suspect.column < 0) suspect = Suspected(target, home);
    if (waited < kSpin) continue;
    if (target.column < 0) break;
    if (StandsStill(suspect)) {
      if (Now() - suspect.since < kAway) continue;
      LendCore(suspect);
    }
    Sleep(target);
    looks = kPatience - 1;
    suspect.column = -1;
  }
  Attend(home, 0, false);
}

void Claims::Attend(int32_t column, int32_t thread, bool present) {
  columns_[column].attended.store(present, std::memory_order_relaxed);
  columns_[column].thread.store(thread, std::memory_order_relaxed);
  attended_.fetch_add(present ? 1 : -1, std::memory_order_relaxed);
}

bool Claims::MaySteal(int32_t home, int looks) {
  // Looking at the columns of others costs them time, too.
  if (looks >= kPatience) return looks % kLooksToSteal == 0 && Steal(home, false);
  return attended_.load(std::memory_order_relaxed) < program_->num_columns && Steal(home, true);
}

bool Claims::Ready(const Part& part, Target* missing) const {
  for (int32_t i = part.first_wait; i < part.first_wait + part.num_waits; ++i) {
    const PartWait& wait = program_->waits[i];
    *missing = {wait.column, static_cast<uint32_t>(wait.completed)};
    if (NumCompleted(wait.column) < missing->completed) return false;
  }
  if (part.barrier < 0) return true;
  const int32_t* needed = program_->barriers + int64_t{part.barrier} * program_->num_columns;
  for (int32_t c = 0; c < program_->num_columns; ++c) {
    *missing = {c, static_cast<uint32_t>(needed[c])};
    if (NumCompleted(c) < missing->completed) return false;
  }
  return true;
}

bool Claims::RunSome(int32_t column, int32_t home) {
  std::atomic<uint64_t>& state = columns_[column].word;
  uint64_t word = state.load(std::memory_order_acquire);
  const auto current = static_cast<int32_t>(word >> 32);
  if (current >= program_->num_parts(column)) return false;
  const Part& part = program_->part(column, current);
  const auto next = static_cast<int32_t>((word >> 16) & kMask);
  const int32_t left = part.num_units - next;
  if (left == 0) return false;
  // Who claimed the first units has seen that the part may begin.
  Target missing{};
  if (next == 0 && !Ready(part, &missing)) return false;
  // Half of what is left: large pieces first, and small ones when it matters who ends last.
  const int32_t count = part.chain != 0 || alone_ ? left : (left + 1) / 2;
  Column& own = columns_[home];
  own.runs.store(column, std::memory_order_relaxed);
  if (!state.compare_exchange_strong(word, word + count * kClaimed, std::memory_order_acq_rel)) {
    own.runs.store(-1, std::memory_order_relaxed);
    return true;  // another thread was faster: look again
  }
  if (column != home) stolen_.fetch_add(count, std::memory_order_relaxed);
  RunUnits(part, next, next + count, home);
  own.runs.store(-1, std::memory_order_relaxed);
  const uint64_t before = state.fetch_add(count, std::memory_order_acq_rel);
  if (static_cast<int32_t>(before & kMask) + count == part.num_units) {
    Advance(column, static_cast<uint32_t>(current) + 1);
  }
  return true;
}

bool Claims::Steal(int32_t home, bool unattended) {
  int32_t furthest = -1;
  uint32_t least = UINT32_MAX;
  Target missing{};
  for (int32_t c = 0; c < program_->num_columns; ++c) {
    if (c == home) continue;
    if (unattended && columns_[c].attended.load(std::memory_order_relaxed)) continue;
    const uint64_t word = columns_[c].word.load(std::memory_order_acquire);
    const auto current = static_cast<uint32_t>(word >> 32);
    if (current >= least || static_cast<int32_t>(current) >= program_->num_parts(c)) continue;
    const Part& part = program_->part(c, static_cast<int32_t>(current));
    const auto next = static_cast<int32_t>((word >> 16) & kMask);
    if (next == part.num_units || (next == 0 && !Ready(part, &missing))) continue;
    furthest = c;
    least = current;
  }
  return furthest >= 0 && RunSome(furthest, home);
}

void Claims::RunUnits(const Part& part, int32_t begin, int32_t end, int32_t home) {
  if (error_.load(std::memory_order_relaxed) != 0) return;
  const Unit* units = program_->units + part.first_unit;
  if (part.chain == 0) {
    Call(units[begin], units[end - 1], home);
    return;
  }
  for (int32_t i = begin; i < end; ++i) Call(units[i], units[i], home);
}

void Claims::Call(const Unit& first, const Unit& last, int32_t home) {
  const auto function = program_->functions[first.function];
  const bool records = program_->record >= 0;
  const int64_t begin = records ? Now() : 0;
  const int32_t error = Guarded(function, arguments_, first.begin, last.end, last.ahead);
  if (error != 0) error_.store(error, std::memory_order_relaxed);
  if (!records) return;
  auto* log = static_cast<UnitRecord*>(arguments_[program_->record]);
  const int64_t end = Now();
  for (const Unit* unit = &first; unit <= &last; ++unit) {
    log[unit - program_->units] = {unit == &first ? begin : 0, end, home};
  }
}

void Claims::Advance(int32_t column, uint32_t completed) {
  Column& own = columns_[column];
  // Sequentially consistent, as in Sleep: one of the two sees what the other one wrote.
  own.word.exchange(uint64_t{completed} << 32, std::memory_order_seq_cst);
  if (own.wanted.load(std::memory_order_seq_cst) <= completed) {
    own.wanted.store(kNobody, std::memory_order_seq_cst);
    FutexWakeAll(&own.wanted);
  }
  if (static_cast<int32_t>(completed) == program_->num_parts(column)) {
    unfinished_.fetch_sub(1, std::memory_order_acq_rel);
  }
}

Claims::Target Claims::Blocking(int32_t home, bool stays) const {
  const uint32_t completed = NumCompleted(home);
  Target target{-1, 0};
  if (static_cast<int32_t>(completed) < program_->num_parts(home)) {
    const Part& part = program_->part(home, static_cast<int32_t>(completed));
    return Ready(part, &target) ? Target{home, completed + 1} : target;
  }
  for (int32_t c = 0; stays && target.column < 0 && c < program_->num_columns; ++c) {
    const auto all = static_cast<uint32_t>(program_->num_parts(c));
    if (NumCompleted(c) < all) target = {c, all};
  }
  return target;
}

Claims::Suspect Claims::Suspected(const Target& target, int32_t home) const {
  for (int32_t c = 0; target.column >= 0 && c < program_->num_columns; ++c) {
    if (c == home || columns_[c].runs.load(std::memory_order_relaxed) != target.column) continue;
    const int32_t thread = columns_[c].thread.load(std::memory_order_relaxed);
    if (thread > 0) return {c, thread, ProcessorTime(thread), Now()};
  }
  return {};
}

bool Claims::StandsStill(const Suspect& suspect) const {
  if (suspect.column < 0) return false;
  const Column& column = columns_[suspect.column];
  return column.thread.load(std::memory_order_relaxed) == suspect.thread &&
         column.runs.load(std::memory_order_relaxed) >= 0 &&
         ProcessorTime(suspect.thread) == suspect.processor_time;
}

void Claims::LendCore(const Suspect& suspect) {
  SwapCores(suspect.thread);
  lent_.fetch_add(1, std::memory_order_relaxed);
}

void Claims::Sleep(const Target& wanted) {
  Column& column = columns_[wanted.column];
  uint32_t least = column.wanted.load(std::memory_order_seq_cst);
  while (least > wanted.completed &&
         !column.wanted.compare_exchange_weak(least, wanted.completed, std::memory_order_seq_cst)) {
  }
  if (column.word.load(std::memory_order_seq_cst) >> 32 >= wanted.completed) return;
  FutexWait(&column.wanted, std::min(least, wanted.completed), kSleep);
}

}  // namespace tvm_ios
