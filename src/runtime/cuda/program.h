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

#include "runtime/kernel_table.h"

namespace tvm_ios {
namespace cuda {

/*! \brief A tensor within a workspace. */
struct PlacedTensor {
  int64_t offset;
  KernelTable::Spec spec;
};

/*! \brief A kernel with the stream, the earlier calls it waits for, and the tensors of its call. */
struct StageCall {
  int64_t kernel;
  int64_t stream;
  std::vector<int64_t> waits;
  std::vector<int64_t> tensors;
};

/*! \brief The calls of a stage in the order in which they are issued. */
struct StageProgram {
  int64_t num_streams;
  std::vector<PlacedTensor> parts;
  std::vector<StageCall> calls;
};

/*!
 * \brief Read a stage program.
 *
 * It consists of the number of streams and of parts, then for each part its byte offset in the
 * workspace, type code, bits, rank and sizes, then for each call its kernel, its stream, the number
 * of calls that it waits for, these, the number of its tensors, and the tensors. Parts are numbered
 * behind the tensors. A call follows those that it waits for, and has a tensor.
 *
 * \param numbers The program.
 * \param num_kernels, num_tensors How many kernels and tensors the program may refer to.
 * \throw ffi::Error, a ValueError, for an invalid program.
 */
StageProgram ReadProgram(::tvm::ffi::ShapeView numbers, int64_t num_kernels, int64_t num_tensors);

}  // namespace cuda
}  // namespace tvm_ios
#endif  // TVM_IOS_RUNTIME_CUDA_PROGRAM_H_
