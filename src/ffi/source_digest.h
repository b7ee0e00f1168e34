// SPDX-License-Identifier: Apache-2.0
/*!
 * \file source_digest.h
 * \brief A digest of the sources that run and time stages, made by cmake/source_digest.py.
 */
#ifndef TVM_IOS_FFI_SOURCE_DIGEST_H_
#define TVM_IOS_FFI_SOURCE_DIGEST_H_

namespace tvm_ios {

/*! \brief A digest that differs between sources whose run time may differ; it ignores comments. */
extern const char* const kSourceDigest;

}  // namespace tvm_ios
#endif  // TVM_IOS_FFI_SOURCE_DIGEST_H_
