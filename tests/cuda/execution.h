// SPDX-License-Identifier: Apache-2.0
/*!
 * \file execution.h
 * \brief Runs a launch of a kernel on the CPU.
 */
#ifndef TVM_IOS_TESTS_CUDA_EXECUTION_H_
#define TVM_IOS_TESTS_CUDA_EXECUTION_H_

#include <cstddef>
#include <string>
#include <vector>

#include "cuda/block.h"
#include "cuda/guarded.h"
#include "cuda/kernel.h"

namespace fake_driver {

/*! \brief A kernel's sizes and arguments, kept for when it runs. */
struct Launched {
  const Kernel* kernel;
  Index grid, block;
  size_t shared_bytes;
  std::vector<std::vector<unsigned char>> arguments{};

  /*! \param parameters As cuLaunchKernel gets them; what they point to is copied. */
  void Copy(void** parameters);
};

/*!
 * \brief Runs blocks one after another, their threads in an order that TVM_IOS_FAKE_DRIVER_ORDER
 * tells.
 *
 * Shared memory holds NaN when a block begins. What lies behind the dynamic one may not be touched.
 */
class Executor {
 public:
  Executor();

  /*! \return What went wrong, or nothing. */
  std::string Run(const Launched& launched);

 private:
  std::string RunGuarded(const Launched& launched, void** parameters);
  std::string RunBlocks(const Launched& launched, void** parameters);

  Guarded shared_;
  std::vector<unsigned char> signal_stack_;
  Block block_;
};

}  // namespace fake_driver
#endif  // TVM_IOS_TESTS_CUDA_EXECUTION_H_
