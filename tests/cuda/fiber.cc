// SPDX-License-Identifier: Apache-2.0
#include "cuda/fiber.h"

#include <cstdint>
#include <utility>

/*!
 * \brief Keeps what a function has to keep on the stack, and goes on with another stack.
 *
 * swapcontext does that, too, with system calls; _longjmp takes four times as long.
 */
extern "C" void StandInSwitch(void** from, void* to);

#if defined(__x86_64__)
asm(R"(
  .text
  .type StandInSwitch, @function
  .hidden StandInSwitch
StandInSwitch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  popq %rcx
  jmp *%rcx
  .size StandInSwitch, .-StandInSwitch
)");
#elif defined(__aarch64__)
asm(R"(
  .text
  .type StandInSwitch, %function
  .hidden StandInSwitch
StandInSwitch:
  sub sp, sp, #160
  stp x19, x20, [sp, #0]
  stp x21, x22, [sp, #16]
  stp x23, x24, [sp, #32]
  stp x25, x26, [sp, #48]
  stp x27, x28, [sp, #64]
  stp x29, x30, [sp, #80]
  stp d8, d9, [sp, #96]
  stp d10, d11, [sp, #112]
  stp d12, d13, [sp, #128]
  stp d14, d15, [sp, #144]
  mov x9, sp
  str x9, [x0]
  mov sp, x1
  ldp x19, x20, [sp, #0]
  ldp x21, x22, [sp, #16]
  ldp x23, x24, [sp, #32]
  ldp x25, x26, [sp, #48]
  ldp x27, x28, [sp, #64]
  ldp x29, x30, [sp, #80]
  ldp d8, d9, [sp, #96]
  ldp d10, d11, [sp, #112]
  ldp d12, d13, [sp, #128]
  ldp d14, d15, [sp, #144]
  add sp, sp, #160
  ret
  .size StandInSwitch, .-StandInSwitch
)");
#else
#error "fibers need a switch of stacks for this processor"
#endif

namespace fake_driver {
namespace {

constexpr size_t kStackBytes = size_t{1} << 18;

#if defined(__x86_64__)
// Six registers, the address to return to, and one word, as if it had been called.
constexpr size_t kFrameWords = 8;
constexpr size_t kReturnWord = 6;
#else
constexpr size_t kFrameWords = 20;
constexpr size_t kReturnWord = 11;
#endif

Fiber* running = nullptr;

}  // namespace

Fiber::Fiber(std::function<void()> body) : body_(std::move(body)), stack_(kStackBytes) {
  Abandon();
}

void Fiber::Abandon() {
  void** frame = reinterpret_cast<void**>(stack_.end()) - kFrameWords;
  frame[kReturnWord] = reinterpret_cast<void*>(&Fiber::Enter);
  here_ = frame;
}

void Fiber::Resume() {
  running = this;
  StandInSwitch(&outside_, here_);
}

void Fiber::Pause() { StandInSwitch(&here_, outside_); }

void Fiber::Enter() {
  Fiber* fiber = running;
  for (;;) {
    fiber->body_();
    fiber->Pause();
  }
}

}  // namespace fake_driver
