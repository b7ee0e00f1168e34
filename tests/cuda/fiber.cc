// SPDX-License-Identifier: Apache-2.0
#include "cuda/fiber.h"

#include <ucontext.h>

#include <cstdint>
#include <utility>

namespace standin {
namespace {

constexpr size_t kStackBytes = size_t{1} << 18;

}  // namespace

Fiber::Fiber(std::function<void()> body) : body_(std::move(body)), stack_(kStackBytes) {}

void Fiber::Resume() {
  // _setjmp and _longjmp leave the signal mask alone, which would be two system calls a switch.
  if (_setjmp(outside_) != 0) return;
  if (entered_) _longjmp(here_, 1);
  entered_ = true;
  Begin();
}

void Fiber::Pause() {
  if (_setjmp(here_) == 0) _longjmp(outside_, 1);
}

void Fiber::Begin() {
  ucontext_t context{};
  getcontext(&context);
  context.uc_stack.ss_sp = stack_.begin();
  context.uc_stack.ss_size = kStackBytes;
  const auto address = reinterpret_cast<uintptr_t>(this);
  makecontext(&context, reinterpret_cast<void (*)()>(&Fiber::Enter), 2,
              static_cast<unsigned>(address >> 32), static_cast<unsigned>(address));
  setcontext(&context);
}

void Fiber::Enter(unsigned high, unsigned low) {
  auto* fiber = reinterpret_cast<Fiber*>(uintptr_t{high} << 32 | low);
  for (;;) {
    fiber->body_();
    fiber->Pause();
  }
}

}  // namespace standin
