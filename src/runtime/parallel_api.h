// SPDX-License-Identifier: Apache-2.0
/*!
 * \file parallel_api.h
 * \brief TVM's thread pool, found in the TVM runtime that the process has loaded.
 *
 * The library is not linked against TVM's runtime. A model's compiled kernels and this code must
 * share one pool, that of the runtime that the user has imported.
 */
#ifndef TVM_IOS_RUNTIME_PARALLEL_API_H_
#define TVM_IOS_RUNTIME_PARALLEL_API_H_

#include <cstdint>
#include <string>

namespace tvm_ios {

/*! \brief The layout of TVMParallelGroupEnv in tvm/runtime/c_backend_api.h. */
struct ParallelGroupEnv {
  void* sync_handle;
  int32_t num_task;
};

/*! \brief The C functions of the thread pool, see tvm/runtime/c_backend_api.h. */
struct ParallelApi {
  using Task = int (*)(int task, ParallelGroupEnv* env, void* data);

  /*! \brief TVMBackendParallelLaunch: runs the task num_task times in parallel and waits. */
  int (*launch)(Task task, void* data, int num_task);
  /*! \brief TVMBackendParallelBarrier: waits until all tasks have arrived. */
  int (*barrier)(int task, ParallelGroupEnv* env);

  /*!
   * \brief Look the functions up in a loaded library.
   * \param path Path of libtvm_runtime.so.
   */
  static void Load(const std::string& path);
  /*! \brief Return the functions that Load found; throw an error if it was not called. */
  static const ParallelApi& Get();

  /*! \brief Launch tasks that start on different cores; return 0, or another number on failure. */
  int LaunchOnDistinctCores(Task task, void* data, int num_task) const;
};

}  // namespace tvm_ios
#endif  // TVM_IOS_RUNTIME_PARALLEL_API_H_
