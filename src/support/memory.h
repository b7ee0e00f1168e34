// SPDX-License-Identifier: Apache-2.0
/*!
 * \file memory.h
 * \brief Available memory.
 */
#ifndef TVM_IOS_SUPPORT_MEMORY_H_
#define TVM_IOS_SUPPORT_MEMORY_H_

#include <cstdint>
#include <string>

namespace tvm_ios {

/*!
 * \brief Return the bytes that this process can still allocate: the least that the machine, the
 * process's control group and its limit of address space (ulimit -v) leave.
 */
int64_t AvailableMemory();

/*!
 * \brief A memory limit for a computation whose memory grows.
 *
 * The limit is a quarter of the memory available at the beginning: a vector that grows at that size
 * briefly takes three times as much.
 */
class MemoryBudget {
 public:
  MemoryBudget();

  int64_t bytes() const { return bytes_; }
  /*! \brief Return whether this process has exceeded the limit; takes some microseconds. */
  bool IsSpent() const;

 private:
  int64_t bytes_;
  int64_t resident_;  // at the beginning
};

/*! \brief Return a number of bytes as text, for example 512 MiB. */
std::string BytesText(int64_t bytes);

}  // namespace tvm_ios
#endif  // TVM_IOS_SUPPORT_MEMORY_H_
