// SPDX-License-Identifier: Apache-2.0
/*!
 * \file kernel.h
 * \brief What the fake driver and a kernel that is compiled for the host know of each other.
 */
#ifndef TVM_IOS_TESTS_CUDA_KERNEL_H_
#define TVM_IOS_TESTS_CUDA_KERNEL_H_

#include <stddef.h>

#include "cuda/control.h"

namespace fake_driver {

struct Index {
  unsigned x, y, z;
};

/*! \brief Which thread runs, as the kernel sees it. */
struct Place {
  Index thread, block, block_dim, grid_dim;
  unsigned char* dynamic;  // the block's dynamic shared memory
};

/*! \brief A kernel of an image, there as the symbol NAME_fake_driver. */
struct Kernel {
  void (*run)(void** parameters);  // runs the thread at the place
  const size_t* parameter_bytes;   // of each parameter, then 0
  bool meets;                      // whether its threads may wait for each other
  Place* place;
  unsigned char* shared_begin;  // what is declared __shared__
  unsigned char* shared_end;
};

/*! \brief What a warp does together: it gets the records of the lanes that take part. */
using Resolve = void (*)(void* const* records, unsigned lanes);

inline constexpr unsigned kWarp = 32;

}  // namespace fake_driver

/*! \brief Waits for all threads of the block that have not ended; the line is the kernel's. */
TVM_IOS_FAKE_DRIVER_EXPORT void StandInBarrier(int line);

/*!
 * \brief Waits for the lanes of the mask, then has the record of each resolved, once for all.
 * \param mask 0 for the lanes that come here together.
 */
TVM_IOS_FAKE_DRIVER_EXPORT void StandInCollective(unsigned mask, int line, void* record,
                                                  fake_driver::Resolve resolve);

/*! \brief Ends the launch with a complaint. */
TVM_IOS_FAKE_DRIVER_EXPORT void StandInFail(const char* what);

/*! \brief cp.async: so many bytes are read, what is left of `bytes` becomes zero. */
TVM_IOS_FAKE_DRIVER_EXPORT void StandInCopyLater(void* to, const void* from, unsigned bytes,
                                                 unsigned read);
/*! \brief cp.async.commit_group. */
TVM_IOS_FAKE_DRIVER_EXPORT void StandInCommitCopies();
/*! \brief cp.async.wait_group: all but so many of the last groups are done. */
TVM_IOS_FAKE_DRIVER_EXPORT void StandInAwaitCopies(unsigned groups);

#endif  // TVM_IOS_TESTS_CUDA_KERNEL_H_
