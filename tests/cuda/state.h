// SPDX-License-Identifier: Apache-2.0
/*!
 * \file state.h
 * \brief All that the driver keeps, and how its functions come by it.
 */
#ifndef TVM_IOS_TESTS_CUDA_STATE_H_
#define TVM_IOS_TESTS_CUDA_STATE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "cuda/driver.h"
#include "cuda/execution.h"
#include "cuda/image.h"
#include "cuda/machine.h"
#include "cuda/memory.h"

namespace fake_driver {

/*! \brief All that the driver keeps, under one lock. */
struct State {
  std::mutex mutex;
  Journal journal;
  Machine machine{journal};
  Memory memory;
  Executor executor;
  Image nothing{nullptr};  // the kernels of tests that only launch
  std::map<Id, std::unique_ptr<Image>> images;
  std::string failure;  // what went wrong in a kernel
};

inline State& TheState() {
  // Never destroyed: the program's own static objects may still call.
  static State& state = *std::make_unique<State>().release();
  return state;
}

/*! \brief The devices whose contexts the thread has pushed, the current one last. */
inline std::vector<int>& Contexts() {
  static thread_local std::vector<int> contexts;
  return contexts;
}

inline int Current() { return Contexts().empty() ? -1 : Contexts().back(); }

inline Id ToId(const void* handle) { return static_cast<Id>(reinterpret_cast<uintptr_t>(handle)); }
inline Handle ToHandle(Id id) { return reinterpret_cast<Handle>(static_cast<uintptr_t>(id)); }

/*! \brief One call of the driver: the lock, and the fault that the test wants. */
template <typename Body>
int Enter(const char* function, Body body) {
  State& state = TheState();
  const std::lock_guard<std::mutex> lock(state.mutex);
  if (const Result fault = state.journal.Fault(function)) return fault;
  return body(state);
}

/*! \brief A call that makes something. */
template <typename Body>
int EnterMaking(const char* function, Handle* made, Body body) {
  return Enter(function, [&](State& state) {
    Id id = 0;
    const Result result = body(state.machine, &id);
    *made = ToHandle(id);
    return result;
  });
}

}  // namespace fake_driver
#endif  // TVM_IOS_TESTS_CUDA_STATE_H_
