// SPDX-License-Identifier: Apache-2.0
/*!
 * \file device_code.h
 * \brief Modules of device code that are to be saved, not run.
 *
 * Where there is no driver, TVM has no runtime for CUDA, and leaves device code as the source that
 * it wrote. Saved like that it would have to be compiled wherever it is loaded, which TVM's runtime
 * alone cannot do.
 */
#ifndef TVM_IOS_RUNTIME_CUDA_DEVICE_CODE_H_
#define TVM_IOS_RUNTIME_CUDA_DEVICE_CODE_H_

#include <tvm/ffi/extra/module.h>
#include <tvm/ffi/string.h>

namespace tvm_ios {
namespace cuda {

namespace ffi = ::tvm::ffi;

/*! \brief Whether the module is device code that was left as source. */
bool IsSource(const ffi::Module& module);

/*!
 * \brief The same functions with machine code for their source.
 *
 * \param module One for which IsSource holds.
 * \param code What the source was compiled to, "cubin" or "fatbin" to the driver.
 */
ffi::Module WithMachineCode(const ffi::Module& module, const ffi::Bytes& code);

}  // namespace cuda
}  // namespace tvm_ios
#endif  // TVM_IOS_RUNTIME_CUDA_DEVICE_CODE_H_
