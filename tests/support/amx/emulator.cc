// SPDX-License-Identifier: Apache-2.0
//
// Executes the instructions of Intel's AMX that processors without it do not know. Such an
// instruction raises SIGILL, whose handler decodes it, does what it does and goes on behind it.
// What a processor with AMX refuses, such as matrices that do not fit, stays an illegal
// instruction.
//
// Source: Intel 64 and IA-32 Architectures Software Developer's Manual, volume 2, LDTILECFG,
// TDPBF16PS, TILELOADD, TILERELEASE, TILESTORED and TILEZERO; 2.1.5 (addressing forms) and 2.3.5
// (VEX).

#include <signal.h>
#include <stdio.h>
#include <ucontext.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <optional>

namespace {

constexpr int kTiles = 8;
constexpr int kMostRows = 16;
constexpr int kRowBytes = 64;

struct Tile {
  int rows = 0;
  int row_bytes = 0;
  std::array<std::array<uint8_t, kRowBytes>, kMostRows> data{};

  [[nodiscard]] bool configured() const { return rows > 0; }
  void Clear() { data = {}; }
};

thread_local std::array<Tile, kTiles> tiles;
std::atomic<int64_t> executed{0};
struct sigaction previous;

// The general registers by their numbers in instructions.
constexpr std::array<int, 16> kRegisters = {REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP,
                                            REG_RSI, REG_RDI, REG_R8,  REG_R9,  REG_R10, REG_R11,
                                            REG_R12, REG_R13, REG_R14, REG_R15};

template <typename Number>
Number Read(const void* place) {
  Number number;
  std::memcpy(&number, place, sizeof number);
  return number;
}

enum class Prefix { kNone, k66, kF3, kF2 };

struct Instruction {
  Prefix prefix = Prefix::kNone;
  uint8_t opcode = 0;
  bool in_memory = false;  // the operand of ModRM.rm
  int reg = 0;             // ModRM.reg
  int rm = 0;              // ModRM.rm of a register
  int third = 0;           // VEX.vvvv
  uint8_t* address = nullptr;
  int64_t stride = 0;  // what SIB's index holds, scaled
  int length = 0;
};

// Decode an instruction of VEX map 0F38 with 128 bits and W0; anything else has no value.
std::optional<Instruction> Decode(const uint8_t* code, const greg_t* registers) {
  if (code[0] != 0xC4 || (code[1] & 0x1F) != 2 || (code[2] & 0x84) != 0) return std::nullopt;
  const int index_high = (code[1] & 0x40) ? 0 : 8;
  const int base_high = (code[1] & 0x20) ? 0 : 8;
  const uint8_t modrm = code[4];
  Instruction found;
  found.prefix = static_cast<Prefix>(code[2] & 3);
  found.opcode = code[3];
  found.third = ~(code[2] >> 3) & 15;
  found.reg = modrm >> 3 & 7;
  found.rm = modrm & 7;
  found.length = 5;
  const int mode = modrm >> 6;
  if (mode == 3) return found;
  found.in_memory = true;
  auto value = [&](int number) { return static_cast<int64_t>(registers[kRegisters[number]]); };
  int64_t address = 0;
  int displacement = mode == 1 ? 1 : mode == 2 ? 4 : 0;
  bool of_code = false;
  if (found.rm == 4) {
    const uint8_t sib = code[found.length++];
    const int index = (sib >> 3 & 7) | index_high;
    const int base = sib & 7;
    if (index != 4) found.stride = value(index) * (1 << (sib >> 6));
    if (base == 5 && mode == 0) {
      displacement = 4;
    } else {
      address = value(base | base_high);
    }
  } else if (found.rm == 5 && mode == 0) {
    displacement = 4;
    of_code = true;
  } else {
    address = value(found.rm | base_high);
  }
  const uint8_t* place = code + found.length;
  if (displacement == 1) address += Read<int8_t>(place);
  if (displacement == 4) address += Read<int32_t>(place);
  found.length += displacement;
  if (of_code) address += reinterpret_cast<int64_t>(code) + found.length;
  found.address = reinterpret_cast<uint8_t*>(address);
  return found;
}

bool Configure(const uint8_t* config) {
  constexpr int kRowBytesAt = 16;
  constexpr int kRowsAt = 48;
  std::array<Tile, kTiles> fresh;
  if (config[0] != 1 || config[1] != 0) return false;
  for (int i = 0; i < kTiles; ++i) {
    fresh[i].row_bytes = Read<uint16_t>(config + kRowBytesAt + 2 * i);
    fresh[i].rows = config[kRowsAt + i];
    const bool both = (fresh[i].rows > 0) == (fresh[i].row_bytes > 0);
    if (!both || fresh[i].rows > kMostRows || fresh[i].row_bytes > kRowBytes) return false;
  }
  tiles = fresh;
  return true;
}

float Widened(const uint8_t* bits) {
  const uint32_t wide = static_cast<uint32_t>(Read<uint16_t>(bits)) << 16;
  return Read<float>(&wide);
}

bool Multiply(Tile& sums, const Tile& left, const Tile& right) {
  const int depth = left.row_bytes / 4;
  const int columns = sums.row_bytes / 4;
  const bool fit = left.rows == sums.rows && right.rows == depth &&
                   right.row_bytes == sums.row_bytes && sums.configured() && left.configured();
  if (!fit || left.row_bytes % 4 != 0 || sums.row_bytes % 4 != 0) return false;
  for (int m = 0; m < sums.rows; ++m) {
    for (int n = 0; n < columns; ++n) {
      uint8_t* place = sums.data[m].data() + 4 * n;
      float first = 0;
      float second = 0;
      for (int k = 0; k < depth; ++k) {
        const uint8_t* a = left.data[m].data() + 4 * k;
        const uint8_t* b = right.data[k].data() + 4 * n;
        first += Widened(a) * Widened(b);
        second += Widened(a + 2) * Widened(b + 2);
      }
      const float total = Read<float>(place) + (first + second);
      std::memcpy(place, &total, sizeof total);
    }
  }
  return true;
}

void Load(Tile& tile, const Instruction& from) {
  tile.Clear();
  for (int row = 0; row < tile.rows; ++row) {
    std::memcpy(tile.data[row].data(), from.address + row * from.stride, tile.row_bytes);
  }
}

void Store(const Tile& tile, const Instruction& to) {
  for (int row = 0; row < tile.rows; ++row) {
    std::memcpy(to.address + row * to.stride, tile.data[row].data(), tile.row_bytes);
  }
}

// Return whether the processor would have executed the instruction.
bool Execute(const Instruction& instruction) {
  const auto& [prefix, opcode, in_memory, reg, rm, third, address, stride, length] = instruction;
  if (opcode == 0x49 && prefix == Prefix::kNone && in_memory && reg == 0) {
    return Configure(address);
  }
  if (opcode == 0x49 && prefix == Prefix::kNone && !in_memory && reg == 0 && rm == 0) {
    tiles = {};
    return true;
  }
  Tile& tile = tiles[reg];
  if (!tile.configured()) return false;
  if (opcode == 0x49 && prefix == Prefix::kF2 && !in_memory && rm == 0) {
    tile.Clear();
    return true;
  }
  if (opcode == 0x4B && in_memory && rm == 4) {
    if (prefix == Prefix::kF2) Load(tile, instruction);
    if (prefix == Prefix::kF3) Store(tile, instruction);
    return prefix == Prefix::kF2 || prefix == Prefix::kF3;
  }
  if (opcode == 0x5C && prefix == Prefix::kF3 && !in_memory && third < kTiles) {
    const bool different = reg != rm && reg != third && rm != third;
    return different && Multiply(tile, tiles[rm], tiles[third]);
  }
  return false;
}

void Handle(int signal, siginfo_t* /*info*/, void* context) {
  greg_t* registers = static_cast<ucontext_t*>(context)->uc_mcontext.gregs;
  const auto* code = reinterpret_cast<const uint8_t*>(registers[REG_RIP]);
  const std::optional<Instruction> instruction = Decode(code, registers);
  if (instruction && Execute(*instruction)) {
    registers[REG_RIP] += instruction->length;
    ++executed;
    return;
  }
  dprintf(STDERR_FILENO, "AMX would not execute: %02x %02x %02x %02x %02x %02x\n", code[0], code[1],
          code[2], code[3], code[4], code[5]);
  sigaction(signal, &previous, nullptr);  // the instruction is tried again, and ends the process
}

}  // namespace

extern "C" {

void tvm_ios_emulate_amx() {
  struct sigaction action = {};
  action.sa_sigaction = Handle;
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGILL, &action, &previous);
}

void tvm_ios_stop_emulating_amx() { sigaction(SIGILL, &previous, nullptr); }

int64_t tvm_ios_emulated_instructions() { return executed; }
}
