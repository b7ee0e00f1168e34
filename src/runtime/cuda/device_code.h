// SPDX-License-Identifier: Apache-2.0
/*!
 * \file device_code.h
 * \brief Modules of device code that are to be saved, not run.
 *
 * Without a driver, TVM has no runtime for CUDA and leaves device code as the source that it has
 * generated. A saved module of source code would have to be compiled where it is loaded, which
 * TVM's runtime alone cannot do.
 */
#ifndef TVM_IOS_RUNTIME_CUDA_DEVICE_CODE_H_
#define TVM_IOS_RUNTIME_CUDA_DEVICE_CODE_H_

#include <tvm/ffi/extra/module.h>
#include <tvm/ffi/string.h>

namespace tvm_ios {
namespace cuda {

namespace ffi = ::tvm::ffi;

/*! \brief Return whether the module is device code that was left as source. */
bool IsSource(const ffi::Module& module);

/*!
 * \brief Return the same functions with machine code instead of their source.
 * \param module A module for which IsSource holds.
 * \param code The compiled source, "cubin" or "fatbin" to the driver.
 */
ffi::Module WithMachineCode(const ffi::Module& module, const ffi::Bytes& code);

}  // namespace cuda
}  // namespace tvm_ios
#endif  // TVM_IOS_RUNTIME_CUDA_DEVICE_CODE_H_
