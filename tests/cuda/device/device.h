// SPDX-License-Identifier: Apache-2.0
/*!
 * \file device.h
 * \brief Makes CUDA C that TVM emits C++ of the host: included before it, by the compiler's option.
 *
 * A kernel's threads run one at a time. What makes them wait for each other is in warp.h.
 */
#ifndef TVM_IOS_TESTS_CUDA_DEVICE_DEVICE_H_
#define TVM_IOS_TESTS_CUDA_DEVICE_DEVICE_H_

#include <math.h>
#include <stdint.h>
#include <string.h>

#include <type_traits>
#include <utility>

#include "cuda/kernel.h"

// Which parts of a source are there is decided by these.
#define __CUDA_ARCH__ 900
#define __CUDACC_VER_MAJOR__ 13
#define __CUDACC_VER_MINOR__ 0

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __align__(bytes) __attribute__((aligned(bytes)))
// GCC does not take alignas where CUDA does, behind __shared__.
#define alignas(bytes) __attribute__((aligned(bytes)))

/*! \brief What is shared lies together, for the fake driver to fill it. */
#define FAKE_DRIVER_SHARED(kernel) static __attribute__((section("shared_" #kernel)))
#define FAKE_DRIVER_DYNAMIC(type, name) \
  type* const name = reinterpret_cast<type*>(fake_driver_place.dynamic)

alignas(64) static fake_driver::Place fake_driver_place;
#define threadIdx (fake_driver_place.thread)
#define blockIdx (fake_driver_place.block)
#define blockDim (fake_driver_place.block_dim)
#define gridDim (fake_driver_place.grid_dim)

namespace fake_driver {

template <typename... Args>
struct Parameters {
  static constexpr size_t kBytes[] = {sizeof(Args)..., 0};
};

template <typename... Args, size_t... kIndices>
void Call(void (*kernel)(Args...), void** parameters, std::index_sequence<kIndices...>) {
  kernel(*static_cast<Args*>(parameters[kIndices])...);
}

template <typename... Args>
void Call(void (*kernel)(Args...), void** parameters) {
  Call(kernel, parameters, std::index_sequence_for<Args...>());
}

template <typename... Args>
constexpr const size_t* BytesOf(void (*)(Args...)) {
  return Parameters<Args...>::kBytes;
}

}  // namespace fake_driver

/*! \brief Lets the fake driver find a kernel. */
#define FAKE_DRIVER_KERNEL(name, meets)                                                         \
  extern "C" __attribute__((weak, visibility("hidden"))) unsigned char __start_shared_##name[]; \
  extern "C" __attribute__((weak, visibility("hidden"))) unsigned char __stop_shared_##name[];  \
  TVM_IOS_FAKE_DRIVER_EXPORT const fake_driver::Kernel name##_fake_driver;                      \
  const fake_driver::Kernel name##_fake_driver{                                                 \
      [](void** parameters) { fake_driver::Call(name, parameters); },                           \
      fake_driver::BytesOf(name),                                                               \
      meets,                                                                                    \
      &fake_driver_place,                                                                       \
      __start_shared_##name,                                                                    \
      __stop_shared_##name};

#include "cuda/device/arithmetic.h"
#include "cuda/device/vectors.h"
#include "cuda/device/warp.h"
// These need what is above.
#include "cuda/device/ptx.h"

#endif  // TVM_IOS_TESTS_CUDA_DEVICE_DEVICE_H_
