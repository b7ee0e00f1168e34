// SPDX-License-Identifier: Apache-2.0
/*!
 * \file warp.h
 * \brief Barriers, and what the lanes of a warp do together.
 *
 * A place in the source, not in the program, tells whether threads are at the same point: a
 * compiler may copy a call.
 */
#ifndef TVM_IOS_TESTS_CUDA_DEVICE_WARP_H_
#define TVM_IOS_TESTS_CUDA_DEVICE_WARP_H_

namespace fake_driver {

/*! \brief A lane's part in a shuffle. */
struct Shuffle {
  unsigned char given[16];
  unsigned char taken[16];
  unsigned from;  // a lane
};

/*! \brief Who takes from a lane that takes no part gets NaN. */
inline void ResolveShuffle(void* const* records, unsigned lanes) {
  for (unsigned lane = 0; lane < kWarp; ++lane) {
    if ((lanes >> lane & 1) == 0) continue;
    auto* mine = static_cast<Shuffle*>(records[lane]);
    const auto* other = static_cast<const Shuffle*>(records[mine->from]);
    if (other == nullptr) {
      memset(mine->taken, 0xff, sizeof(mine->taken));
    } else {
      memcpy(mine->taken, other->given, sizeof(mine->taken));
    }
  }
}

inline void ResolveActive(void* const* records, unsigned lanes) {
  for (unsigned lane = 0; lane < kWarp; ++lane) {
    if (records[lane] != nullptr) *static_cast<unsigned*>(records[lane]) = lanes;
  }
}

inline void ResolveNothing(void* const*, unsigned) {}

struct Vote {
  bool predicate;
  unsigned result;
};

inline void ResolveVote(void* const* records, unsigned lanes) {
  unsigned result = 0;
  for (unsigned lane = 0; lane < kWarp; ++lane) {
    if ((lanes >> lane & 1) == 0) continue;
    if (static_cast<const Vote*>(records[lane])->predicate) result |= 1U << lane;
  }
  for (unsigned lane = 0; lane < kWarp; ++lane) {
    if ((lanes >> lane & 1) != 0) static_cast<Vote*>(records[lane])->result = result;
  }
}

inline unsigned LaneId() {
  const Index& thread = fake_driver_place.thread;
  const Index& extents = fake_driver_place.block_dim;
  return (thread.x + extents.x * (thread.y + extents.y * thread.z)) % kWarp;
}

template <typename T>
T Take(unsigned mask, T value, unsigned from, int line) {
  static_assert(sizeof(T) <= sizeof(Shuffle::given), "fits");
  Shuffle shuffle;
  memcpy(shuffle.given, &value, sizeof(T));
  shuffle.from = from;
  StandInCollective(mask, line, &shuffle, ResolveShuffle);
  memcpy(&value, shuffle.taken, sizeof(T));
  return value;
}

}  // namespace fake_driver

inline void __syncthreads(int line = __builtin_LINE()) { StandInBarrier(line); }

inline void __syncwarp(unsigned mask = 0xffffffffU, int line = __builtin_LINE()) {
  int nothing = 0;
  StandInCollective(mask, line, &nothing, fake_driver::ResolveNothing);
}

inline unsigned __activemask(int line = __builtin_LINE()) {
  unsigned lanes = 0;
  StandInCollective(0, line, &lanes, fake_driver::ResolveActive);
  return lanes;
}

inline unsigned __ballot_sync(unsigned mask, int predicate, int line = __builtin_LINE()) {
  fake_driver::Vote vote{predicate != 0, 0};
  StandInCollective(mask, line, &vote, fake_driver::ResolveVote);
  return vote.result;
}

template <typename T>
T __shfl_sync(unsigned mask, T value, int lane, int width = 32, int line = __builtin_LINE()) {
  const unsigned self = fake_driver::LaneId();
  return fake_driver::Take(mask, value, self / width * width + lane % width, line);
}

template <typename T>
T __shfl_down_sync(unsigned mask, T value, unsigned by, int width = 32,
                   int line = __builtin_LINE()) {
  const unsigned self = fake_driver::LaneId();
  const unsigned from = self % width + by < static_cast<unsigned>(width) ? self + by : self;
  return fake_driver::Take(mask, value, from, line);
}

template <typename T>
T __shfl_up_sync(unsigned mask, T value, unsigned by, int width = 32, int line = __builtin_LINE()) {
  const unsigned self = fake_driver::LaneId();
  return fake_driver::Take(mask, value, self % width >= by ? self - by : self, line);
}

template <typename T>
T __shfl_xor_sync(unsigned mask, T value, int by, int width = 32, int line = __builtin_LINE()) {
  const unsigned self = fake_driver::LaneId();
  const unsigned from = self ^ static_cast<unsigned>(by);
  return fake_driver::Take(mask, value, from / width <= self / width ? from : self, line);
}

#endif  // TVM_IOS_TESTS_CUDA_DEVICE_WARP_H_
