// SPDX-License-Identifier: Apache-2.0
/*!
 * \file describe.h
 * \brief A description of a CUDA device.
 */
#ifndef TVM_IOS_RUNTIME_CUDA_DESCRIBE_H_
#define TVM_IOS_RUNTIME_CUDA_DESCRIBE_H_

#include <cstdint>
#include <string>

namespace tvm_ios {
namespace cuda {

/*!
 * \brief Return lines "key: value".
 *
 * The keys are name, capability (major.minor), multiprocessors, l2_bytes, memory_bytes, and driver,
 * the newest version of CUDA that the driver supports.
 *
 * \throw DeviceError if there is no driver or no such device, or the driver is too old.
 */
std::string Describe(int64_t device_id);

}  // namespace cuda
}  // namespace tvm_ios
#endif  // TVM_IOS_RUNTIME_CUDA_DESCRIBE_H_
