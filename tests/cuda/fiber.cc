// SPDX-License-Identifier: Apache-2.0
#include "cuda/fiber.h"

#include <sys/mman.h>
#include <ucontext.h>

#include <cstdint>
#include <new>
#include <utility>

namespace standin {
namespace {

constexpr size_t kStackBytes = size_t{1} << 18;
constexpr size_t kGuardBytes = size_t{1} << 16;

}  // namespace

Fiber::Fiber(std::function<void()> body) : body_(std::move(body)) {
  void* memory = mmap(nullptr, kGuardBytes + kStackBytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  mprotect(memory, kGuardBytes, PROT_NONE);
  stack_ = static_cast<unsigned char*>(memory);
}

Fiber::~Fiber() { munmap(stack_, kGuardBytes + kStackBytes); }

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
  context.uc_stack.ss_sp = stack_ + kGuardBytes;
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
