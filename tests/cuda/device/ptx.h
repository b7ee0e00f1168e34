// SPDX-License-Identifier: Apache-2.0
/*!
 * \file ptx.h
 * \brief Instructions that TVM emits as assembly; tests/support/cuda/ptx.py makes calls of them.
 *
 * Which lane holds which element is told by the PTX ISA, "Matrix Fragments for mma" and "ldmatrix".
 */
#ifndef TVM_IOS_TESTS_CUDA_DEVICE_PTX_H_
#define TVM_IOS_TESTS_CUDA_DEVICE_PTX_H_

#include "cuda/device/matrices.h"
#include "cuda/device/narrow.h"

namespace fake_driver {

inline constexpr unsigned kDynamicWindow = 0x80000000U;
inline constexpr unsigned kStaticWindow = 0x40000000U;

inline unsigned char* StaticOrigin() {
  return reinterpret_cast<unsigned char*>(&fake_driver_place);
}

/*! \brief A 32-bit address of shared memory as a pointer. */
inline unsigned char* SharedPointer(unsigned address) {
  if (address >= kDynamicWindow) return fake_driver_place.dynamic + (address - kDynamicWindow);
  return StaticOrigin() + (static_cast<ptrdiff_t>(address) - kStaticWindow);
}

inline void PtxCopy(unsigned to, const void* from, unsigned bytes, unsigned read) {
  unsigned char* target = SharedPointer(to);
  const bool aligned = to % bytes == 0 && reinterpret_cast<uintptr_t>(from) % bytes == 0;
  Demand(aligned && (bytes == 4 || bytes == 8 || bytes == 16), "cp.async is not aligned");
  StandInCopyLater(target, from, bytes, read);
}
inline void PtxCopy(unsigned to, size_t from, unsigned bytes, unsigned read) {
  PtxCopy(to, reinterpret_cast<const void*>(from), bytes, read);
}

inline void PtxZero(unsigned to, unsigned bytes) { memset(SharedPointer(to), 0, bytes); }

/*! \brief A lane's part in ldmatrix: it names a row, and gets a register of each matrix. */
template <bool kTransposed, int kMatrices>
struct LoadMatrices {
  const unsigned char* row;
  unsigned* const* registers;

  static void Resolve(void* const* records, unsigned lanes) {
    Demand(lanes == 0xffffffffU, "ldmatrix without the whole warp");
    const auto of = [&](unsigned lane) { return static_cast<const LoadMatrices*>(records[lane]); };
    for (unsigned lane = 0; lane < kWarp; ++lane) {
      for (unsigned matrix = 0; matrix < kMatrices; ++matrix) {
        uint16_t pair[2];
        for (unsigned i = 0; i < 2; ++i) {
          const unsigned one = lane / 4, other = lane % 4 * 2 + i;
          const unsigned row = kTransposed ? other : one, column = kTransposed ? one : other;
          memcpy(&pair[i], of(matrix * 8 + row)->row + 2 * column, 2);
        }
        memcpy(of(lane)->registers[matrix], pair, 4);
      }
    }
  }
};

template <bool kTransposed, int kMatrices>
void PtxLoadMatrices(unsigned* const (&registers)[kMatrices], unsigned address,
                     int line = __builtin_LINE()) {
  using Mine = LoadMatrices<kTransposed, kMatrices>;
  // Of the addresses, only those of the matrices' rows count.
  const bool counts = LaneId() < kMatrices * 8;
  Demand(!counts || address % 16 == 0, "ldmatrix is not aligned");
  Mine load{SharedPointer(address), registers};
  StandInCollective(0xffffffffU, line, &load, Mine::Resolve);
}

/*! \brief Operands of two to a register. */
template <typename Format>
struct Packed {
  static constexpr int kPerRegister = 2;
  static constexpr int kColumnsPerRegister = 8;
  static float Get(unsigned bits, int i) {
    return Format::Unpack(static_cast<uint16_t>(bits >> (16 * i)));
  }
};
using F16 = Packed<HalfFormat>;
using BF16 = Packed<BrainFormat>;

struct TF32 {
  static constexpr int kPerRegister = 1;
  static constexpr int kColumnsPerRegister = 4;
  static float Get(unsigned bits, int /*i*/) { return TruncateToTf32(StandInBits<float>(bits)); }
};

inline float GetAccumulator(float value, int /*i*/) { return value; }
inline float GetAccumulator(unsigned bits, int i) { return F16::Get(bits, i); }
inline void SetAccumulator(float* value, int /*i*/, float to) { *value = to; }
inline void SetAccumulator(unsigned* bits, int i, float to) {
  *bits = (*bits & ~(0xffffU << (16 * i))) | unsigned{HalfFormat::Pack(to)} << (16 * i);
}

/*! \brief A lane's part in mma.sync. */
template <typename Format, int kM, int kN, int kK, typename D>
struct MultiplyRegisters {
  static constexpr int kHeld = std::is_same_v<D, float> ? 1 : 2;  // accumulators in a register
  static constexpr int kRegistersA = kM * kK / 32 / Format::kPerRegister;
  static constexpr int kRegistersB = kK * kN / 32 / Format::kPerRegister;
  static constexpr int kRegistersD = kM * kN / 32 / kHeld;
  static_assert(kM == 16 && kN == 8, "the shapes that are known");

  const unsigned* a;
  const unsigned* b;
  const D* c;
  D* const* d;

  static void Resolve(void* const* records, unsigned lanes) {
    static float a[kM * kK], b[kK * kN], c[kM * kN];
    Demand(lanes == 0xffffffffU, "mma without the whole warp");
    for (unsigned lane = 0; lane < kWarp; ++lane) {
      const auto& mine = *static_cast<const MultiplyRegisters*>(records[lane]);
      const int group = lane / 4, in_group = lane % 4;
      for (int i = 0; i < kRegistersA * Format::kPerRegister; ++i) {
        const int r = i / Format::kPerRegister, j = i % Format::kPerRegister;
        const int row = group + 8 * (r % 2);
        const int column =
            in_group * Format::kPerRegister + j + Format::kColumnsPerRegister * (r / 2);
        a[row * kK + column] = Format::Get(mine.a[r], j);
      }
      for (int i = 0; i < kRegistersB * Format::kPerRegister; ++i) {
        const int r = i / Format::kPerRegister, j = i % Format::kPerRegister;
        const int row = in_group * Format::kPerRegister + j + Format::kColumnsPerRegister * r;
        b[row * kN + group] = Format::Get(mine.b[r], j);
      }
      ForAccumulators(lane, [&](int r, int j, int at) { c[at] = GetAccumulator(mine.c[r], j); });
    }
    Multiply<kM, kN, kK>(a, b, c);
    for (unsigned lane = 0; lane < kWarp; ++lane) {
      const auto& mine = *static_cast<const MultiplyRegisters*>(records[lane]);
      ForAccumulators(lane, [&](int r, int j, int at) { SetAccumulator(mine.d[r], j, c[at]); });
    }
  }

  template <typename Visit>
  static void ForAccumulators(unsigned lane, Visit visit) {
    for (int i = 0; i < 4; ++i) {
      const int row = lane / 4 + 8 * (i / 2), column = lane % 4 * 2 + i % 2;
      visit(i / kHeld, i % kHeld, row * kN + column);
    }
  }
};

template <typename Format, int kM, int kN, int kK, typename D, int kD, int kA, int kB>
void PtxMultiply(D* const (&d)[kD], const unsigned (&a)[kA], const unsigned (&b)[kB],
                 const D (&c)[kD], int line = __builtin_LINE()) {
  using Mine = MultiplyRegisters<Format, kM, kN, kK, D>;
  static_assert(kA == Mine::kRegistersA && kB == Mine::kRegistersB && kD == Mine::kRegistersD,
                "as many registers as the instruction has");
  Mine multiply{a, b, c, d};
  StandInCollective(0xffffffffU, line, &multiply, Mine::Resolve);
}

}  // namespace fake_driver

/*! \brief What shared memory's instructions are given in place of a pointer. */
inline unsigned __cvta_generic_to_shared(const volatile void* pointer) {
  const auto* address = static_cast<const volatile unsigned char*>(pointer);
  const auto offset = address - fake_driver_place.dynamic;
  if (0 <= offset && offset < (1 << 20))
    return fake_driver::kDynamicWindow + static_cast<unsigned>(offset);
  return fake_driver::kStaticWindow + static_cast<unsigned>(address - fake_driver::StaticOrigin());
}

#endif  // TVM_IOS_TESTS_CUDA_DEVICE_PTX_H_
