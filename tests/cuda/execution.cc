// SPDX-License-Identifier: Apache-2.0
#include "cuda/execution.h"

#include <setjmp.h>
#include <signal.h>

#include <cstring>

#include "cuda/order.h"

namespace fake_driver {
namespace {

constexpr size_t kSharedBytes = size_t{1} << 18;
constexpr size_t kSignalStackBytes = size_t{1} << 16;
constexpr size_t kSharedAlignment = 16;

sigjmp_buf before_fault;
void* volatile fault_address;
const char* volatile complaint;

void OnFault(int /*signal*/, siginfo_t* info, void* /*context*/) {
  fault_address = info->si_addr;
  siglongjmp(before_fault, 1);
}

/*! \brief Faults of memory are ours while it lives. */
class FaultScope {
 public:
  explicit FaultScope(unsigned char* stack) {
    stack_t own{};
    own.ss_sp = stack;
    own.ss_size = kSignalStackBytes;
    sigaltstack(&own, &stack_);
    struct sigaction action{};
    action.sa_sigaction = OnFault;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    sigaction(SIGSEGV, &action, &segmentation_);
    sigaction(SIGBUS, &action, &bus_);
  }
  ~FaultScope() {
    sigaction(SIGBUS, &bus_, nullptr);
    sigaction(SIGSEGV, &segmentation_, nullptr);
    sigaltstack(&stack_, nullptr);
  }
  FaultScope(const FaultScope&) = delete;
  FaultScope& operator=(const FaultScope&) = delete;

 private:
  stack_t stack_{};
  struct sigaction segmentation_{}, bus_{};
};

std::string Text(const Index& index) {
  return "(" + std::to_string(index.x) + ", " + std::to_string(index.y) + ", " +
         std::to_string(index.z) + ")";
}

unsigned Count(const Index& extents) { return extents.x * extents.y * extents.z; }

}  // namespace

void Launched::Copy(void** parameters) {
  for (const size_t* bytes = kernel->parameter_bytes; *bytes != 0; ++bytes, ++parameters) {
    const auto* begin = static_cast<const unsigned char*>(*parameters);
    arguments.emplace_back(begin, begin + *bytes);
  }
}

Executor::Executor() : shared_(kSharedBytes), signal_stack_(kSignalStackBytes) {}

std::string Executor::Run(const Launched& launched) {
  std::vector<void*> parameters;
  for (const auto& argument : launched.arguments) {
    parameters.push_back(const_cast<unsigned char*>(argument.data()));
  }
  const FaultScope scope(signal_stack_.data());
  std::string wrong = RunGuarded(launched, parameters.data());
  if (wrong.empty()) return wrong;
  return "block " + Text(launched.kernel->place->block) + ": " + wrong;
}

std::string Executor::RunGuarded(const Launched& launched, void** parameters) {
  complaint = nullptr;
  if (sigsetjmp(before_fault, 1) == 0) return RunBlocks(launched, parameters);
  block_.Abandon();
  const std::string thread = "thread " + Text(launched.kernel->place->thread);
  if (complaint != nullptr) return thread + ": " + complaint;
  return thread +
         (shared_.IsBehind(fault_address)
              ? " reaches beyond the dynamic shared memory"
              : " reads or writes where there is no memory, or memory that is not aligned");
}

std::string Executor::RunBlocks(const Launched& launched, void** parameters) {
  const Kernel& kernel = *launched.kernel;
  Place& place = *kernel.place;
  place.grid_dim = launched.grid;
  place.block_dim = launched.block;
  place.dynamic = shared_.Last(launched.shared_bytes, kSharedAlignment);
  const size_t shared_bytes = kernel.shared_end - kernel.shared_begin;
  Order order;
  const std::vector<unsigned> threads = order.Of(Count(launched.block));
  for (const unsigned number : order.Of(Count(launched.grid))) {
    const auto [x, y, z] = launched.grid;
    place.block = {number % x, number / x % y, number / x / y};
    std::memset(place.dynamic, kPoison, launched.shared_bytes);
    if (shared_bytes > 0) std::memset(kernel.shared_begin, kPoison, shared_bytes);
    if (kernel.meets) {
      std::string wrong = block_.Run(kernel, parameters, threads);
      if (!wrong.empty()) return wrong;
      continue;
    }
    for (const unsigned thread : threads) {
      place.thread = {thread % launched.block.x, thread / launched.block.x % launched.block.y,
                      thread / launched.block.x / launched.block.y};
      kernel.run(parameters);
    }
  }
  return "";
}

}  // namespace fake_driver

void StandInFail(const char* what) {
  fake_driver::complaint = what;
  siglongjmp(fake_driver::before_fault, 1);
}
