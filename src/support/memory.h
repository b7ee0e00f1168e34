// SPDX-License-Identifier: Apache-2.0
/*!
 * \file memory.h
 * \brief How much memory there is.
 */
#ifndef TVM_IOS_SUPPORT_MEMORY_H_
#define TVM_IOS_SUPPORT_MEMORY_H_

#include <cstdint>
#include <string>

namespace tvm_ios {

/*!
 * \brief Bytes that this process can still take: the least of what the machine, the process's
 *        control group and its limit of addresses (ulimit -v) leave.
 */
int64_t AvailableMemory();

/*!
 * \brief What a computation may take whose memory grows as it goes.
 *
 * That is a quarter of what is available when it begins: a vector that grows from such a size has
 * three times as much for a moment.
 */
class MemoryBudget {
 public:
  MemoryBudget();

  int64_t bytes() const { return bytes_; }
  /*! \brief Whether this process has grown by more than that; takes some microseconds. */
  bool IsSpent() const;

 private:
  int64_t bytes_;
  int64_t resident_;  // when it began
};

/*! \brief A number of bytes as a user reads it, such as 512 MiB. */
std::string BytesText(int64_t bytes);

}  // namespace tvm_ios
#endif  // TVM_IOS_SUPPORT_MEMORY_H_
