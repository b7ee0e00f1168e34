// SPDX-License-Identifier: Apache-2.0
/*!
 * \file program.h
 * \brief Stage programs: which kernels a stage calls, on which streams, with which tensors.
 */
#ifndef TVM_IOS_RUNTIME_CUDA_PROGRAM_H_
#define TVM_IOS_RUNTIME_CUDA_PROGRAM_H_

#include <tvm/ffi/container/shape.h>

#include <cstdint>
#include <vector>

namespace tvm_ios {
namespace cuda {

/*! \brief A kernel with the stream and the tensors of its call. */
struct StageCall {
  int64_t kernel;
  int64_t stream;
  std::vector<int64_t> tensors;
};

/*! \brief The calls of a stage in the order in which they are issued. */
struct StageProgram {
  int64_t num_streams;
  std::vector<StageCall> calls;
};

/*!
 * \brief Read a stage program.
 *
 * It consists of the number of streams, then for each call its kernel, its stream, the number of
 * its tensors, and the tensors. Every call has a tensor.
 *
 * \param numbers The program.
 * \param num_kernels, num_tensors How many kernels and tensors the program may refer to.
 * \throw ffi::Error, a ValueError, for an invalid program.
 */
StageProgram ReadProgram(::tvm::ffi::ShapeView numbers, int64_t num_kernels, int64_t num_tensors);

}  // namespace cuda
}  // namespace tvm_ios
#endif  // TVM_IOS_RUNTIME_CUDA_PROGRAM_H_
