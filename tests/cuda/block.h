// SPDX-License-Identifier: Apache-2.0
/*!
 * \file block.h
 * \brief A block of threads that wait for each other, on one thread of the host.
 */
#ifndef TVM_IOS_TESTS_CUDA_BLOCK_H_
#define TVM_IOS_TESTS_CUDA_BLOCK_H_

#include <memory>
#include <string>
#include <vector>

#include "cuda/copies.h"
#include "cuda/fiber.h"
#include "cuda/kernel.h"

namespace fake_driver {

/*!
 * \brief Runs blocks, one after another, each thread a fiber.
 *
 * A warp runs until each of its lanes waits or has ended, then the next one. Nothing else is
 * promised by CUDA, so that a kernel that lacks a barrier shows.
 */
class Block {
 public:
  /*!
   * \brief Runs a block to its end.
   * \param order The numbers of the threads, in the order in which they get their turn.
   * \return What is wrong with it, or nothing. Then the block's threads are given up.
   */
  std::string Run(const Kernel& kernel, void** parameters, const std::vector<unsigned>& order);
  /*! \brief Gives up what runs. */
  void Abandon();

  // What a thread does while the block runs.

  void Barrier(int line);
  void Collective(unsigned mask, int line, void* record, Resolve resolve);
  Copies& copies() { return current_->copies; }

  /*! \brief The block that runs, for a kernel to call. */
  static Block& Current();

 private:
  enum class State { kReady, kAtBarrier, kInCollective, kEnded };
  struct Thread {
    std::unique_ptr<Fiber> fiber;
    Index index;
    State state;
    int line;
    unsigned mask;
    void* record;
    Resolve resolve;
    Copies copies;
  };
  using Warp = std::vector<Thread*>;  // by lane

  void Prepare(unsigned count);
  void Resume(Thread& thread);
  void Pause(State state, int line);
  void RunWarp(const Warp& warp, const std::vector<unsigned>& lanes);
  bool ResolveSome(const Warp& warp);
  bool ResolveFor(const Warp& warp, const Thread& first);
  std::string Complaint() const;

  std::vector<Thread> threads_;
  unsigned count_{0};
  const Kernel* kernel_{nullptr};
  void** parameters_{nullptr};
  Thread* current_{nullptr};
};

}  // namespace fake_driver
#endif  // TVM_IOS_TESTS_CUDA_BLOCK_H_
