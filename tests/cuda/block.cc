// SPDX-License-Identifier: Apache-2.0
#include "cuda/block.h"

#include <algorithm>
#include <cstdint>

namespace fake_driver {
namespace {

Block* running_block = nullptr;

Index IndexOf(unsigned number, const Index& extents) {
  return {number % extents.x, number / extents.x % extents.y, number / extents.x / extents.y};
}

std::string Where(int line) { return "line " + std::to_string(line) + " of its source"; }

}  // namespace

Block& Block::Current() { return *running_block; }

std::string Block::Run(const Kernel& kernel, void** parameters,
                       const std::vector<unsigned>& order) {
  kernel_ = &kernel;
  parameters_ = parameters;
  running_block = this;
  Prepare(static_cast<unsigned>(order.size()));
  std::vector<Warp> warps((count_ + kWarp - 1) / kWarp);
  std::vector<std::vector<unsigned>> lanes(warps.size());
  std::vector<unsigned> turns;  // of the warps
  for (unsigned i = 0; i < count_; ++i) warps[i / kWarp].push_back(&threads_[i]);
  for (unsigned number : order) {
    if (lanes[number / kWarp].empty()) turns.push_back(number / kWarp);
    lanes[number / kWarp].push_back(number % kWarp);
  }
  for (;;) {
    for (unsigned warp : turns) RunWarp(warps[warp], lanes[warp]);
    const auto begin = threads_.begin(), end = begin + count_;
    const auto live = [](const Thread& t) { return t.state != State::kEnded; };
    const auto first = std::find_if(begin, end, live);
    if (first == end) return "";
    const bool arrived = std::all_of(begin, end, [&](const Thread& t) {
      return !live(t) || (t.state == State::kAtBarrier && t.line == first->line);
    });
    if (!arrived) {
      std::string complaint = Complaint();
      Abandon();
      return complaint;
    }
    for (auto thread = begin; thread != end; ++thread) {
      if (live(*thread)) thread->state = State::kReady;
    }
  }
}

void Block::Prepare(unsigned count) {
  threads_.reserve(1024);  // they are pointed to
  count_ = count;
  while (threads_.size() < count) {
    auto fiber = std::make_unique<Fiber>([this] {
      kernel_->run(parameters_);
      current_->copies.Finish();
      current_->state = State::kEnded;
    });
    threads_.push_back({std::move(fiber), {}, State::kEnded, 0, 0, nullptr, nullptr, {}});
  }
  for (unsigned i = 0; i < count; ++i) {
    threads_[i].state = State::kReady;
    threads_[i].index = IndexOf(i, kernel_->place->block_dim);
  }
}

void Block::Abandon() {
  for (unsigned i = 0; i < count_; ++i) {
    threads_[i].fiber->Abandon();
    threads_[i].copies.Clear();
  }
}

void Block::Resume(Thread& thread) {
  current_ = &thread;
  kernel_->place->thread = thread.index;
  thread.fiber->Resume();
}

void Block::Pause(State state, int line) {
  Thread& thread = *current_;
  thread.state = state;
  thread.line = line;
  thread.fiber->Pause();
}

void Block::Barrier(int line) { Pause(State::kAtBarrier, line); }

void Block::Collective(unsigned mask, int line, void* record, Resolve resolve) {
  current_->mask = mask;
  current_->record = record;
  current_->resolve = resolve;
  Pause(State::kInCollective, line);
}

void Block::RunWarp(const Warp& warp, const std::vector<unsigned>& lanes) {
  do {
    for (unsigned lane : lanes) {
      if (warp[lane]->state == State::kReady) Resume(*warp[lane]);
    }
  } while (ResolveSome(warp));
}

/*! \brief Lets those go on whose lanes have all come; those that name no lanes when nobody else
 * can. */
bool Block::ResolveSome(const Warp& warp) {
  for (const bool named : {true, false}) {
    for (const Thread* thread : warp) {
      if (thread->state != State::kInCollective || (thread->mask != 0) != named) continue;
      if (ResolveFor(warp, *thread)) return true;
    }
  }
  return false;
}

bool Block::ResolveFor(const Warp& warp, const Thread& first) {
  const unsigned mask = first.mask;
  const int line = first.line;
  const Resolve resolve = first.resolve;
  void* records[kWarp] = {};
  unsigned lanes = 0;
  for (unsigned lane = 0; lane < warp.size(); ++lane) {
    const Thread& thread = *warp[lane];
    const bool named = (mask >> lane & 1) != 0;
    if (thread.state == State::kEnded || (mask != 0 && !named)) continue;
    const bool here = thread.state == State::kInCollective && thread.line == line &&
                      thread.resolve == resolve && thread.mask == mask;
    if (!here && named) return false;
    if (!here) continue;
    records[lane] = thread.record;
    lanes |= 1U << lane;
  }
  resolve(records, lanes);
  for (unsigned lane = 0; lane < warp.size(); ++lane) {
    if ((lanes >> lane & 1) != 0) warp[lane]->state = State::kReady;
  }
  return true;
}

std::string Block::Complaint() const {
  std::vector<std::string> waiting;
  for (unsigned i = 0; i < count_; ++i) {
    const Thread& thread = threads_[i];
    if (thread.state == State::kEnded) continue;
    const bool warps = thread.state == State::kInCollective;
    const std::string what =
        (warps ? "for its warp in " : "at the barrier in ") + Where(thread.line);
    const bool known = std::any_of(waiting.begin(), waiting.end(), [&](const std::string& other) {
      return other.find(what) != std::string::npos;
    });
    if (!known) waiting.push_back("thread " + std::to_string(i) + " waits " + what);
  }
  std::string text = "threads diverge: ";
  for (size_t i = 0; i < waiting.size(); ++i) text += (i == 0 ? "" : ", ") + waiting[i];
  return text;
}

}  // namespace fake_driver

using fake_driver::Block;

void StandInBarrier(int line) { Block::Current().Barrier(line); }

void StandInCollective(unsigned mask, int line, void* record, fake_driver::Resolve resolve) {
  Block::Current().Collective(mask, line, record, resolve);
}

void StandInCopyLater(void* to, const void* from, unsigned bytes, unsigned read) {
  Block::Current().copies().Add(to, from, bytes, read);
}

void StandInCommitCopies() { Block::Current().copies().Commit(); }

void StandInAwaitCopies(unsigned groups) { Block::Current().copies().Await(groups); }
