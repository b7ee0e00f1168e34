# SPDX-License-Identifier: Apache-2.0
"""Kernels for AArch64 on this machine: by QEMU, or with ``bfmmla`` replaced by code for any CPU."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import tvm

from support.networks import poisoned_tensor
from tvm_ios.backend.cpu.code.functions import build_functions
from tvm_ios.backend.cpu.code.objects import kernel_object, static_library
from tvm_ios.backend.cpu.isa import bfmmla
from tvm_ios.backend.cpu.kernels.kernel import Kernel
from tvm_ios.support.folders import TemporaryFolder
from tvm_ios.support.object_store import ObjectStore

NEON = {"kind": "llvm", "mtriple": "aarch64-linux-gnu", "mattr": ["+neon"], "num-cores": 2}
BF16 = {**NEON, "mattr": ["+neon", "+bf16"]}

_COMPILER, _EMULATOR = "aarch64-linux-gnu-gcc", "qemu-aarch64"

_PROGRAM = """
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

%(declarations)s

int main(int count, char** paths) {
  (void)count;
  static const size_t sizes[] = {%(sizes)s};
  enum { kTensors = sizeof sizes / sizeof *sizes };
  void* t[kTensors];
  FILE* file = fopen(paths[1], "r+b");
  for (int i = 0; i < kTensors; ++i) {
    t[i] = aligned_alloc(64, (sizes[i] + 127) / 64 * 64);
    if (fread(t[i], 1, sizes[i], file) != sizes[i]) return 2;
  }
  %(calls)s
  rewind(file);
  for (int i = 0; i < kTensors; ++i) fwrite(t[i], 1, sizes[i], file);
  return fclose(file);
}
"""


_CALLER = """
#include <stdint.h>
#include <stdio.h>

int32_t __tvm_ffi_%(name)s(void*, void*, int32_t, void*);

int32_t ran(void) {
  puts("ran");
  return 0;
}

void TVMFFIErrorSetRaisedFromCStrParts(const char* kind, const char** parts, int32_t count) {
  (void)kind;
  for (int32_t i = 0; i < count; ++i) fputs(parts[i] ? parts[i] : "", stdout);
  puts("");
}

int main(void) {
  for (int i = 0; i < 2; ++i) __tvm_ffi_%(name)s(0, 0, 0, 0);
  return 0;
}
"""


def called_by_qemu(
    function: tvm.tirx.PrimFunc, name: str, target: tvm.target.Target, cpu: str
) -> list[str]:
    """What two calls of a function without arguments print on a processor that QEMU knows.

    The function may call ``ran``, which prints that it did; an error prints what it says.
    """
    _skip_without_qemu()
    with TemporaryFolder() as folder:
        program, code, executable = folder / "main.c", folder / "code.o", folder / "main"
        program.write_text(_CALLER % {"name": name})
        build_functions({name: function}, target).mod.write_to_file(str(code), "o")
        build = [_COMPILER, "-static", str(program), str(code), "-o", str(executable)]
        subprocess.run(build, check=True)
        command = [_EMULATOR, "-cpu", cpu, str(executable)]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
    return done.stdout.splitlines()


def _skip_without_qemu() -> None:
    if not shutil.which(_COMPILER) or not shutil.which(_EMULATOR):
        pytest.skip(f"{_EMULATOR} or {_COMPILER} is not installed")


def run_by_qemu(
    kernel: Kernel, inputs: Sequence[np.ndarray], target: tvm.target.Target, folder: Path
) -> list[np.ndarray]:
    """The kernel's outputs, computed by an emulated processor."""
    _skip_without_qemu()
    store = ObjectStore(folder / "objects")
    phases = map(kernel.code_of, range(len(kernel.phases)))
    objects = [kernel_object(kernel, phase, target, store) for phase in phases]
    paths = []
    for item in {item.symbol: item for item in objects}.values():
        static_library(item, target, store)
        content = store.get(item.key)
        assert content is not None
        paths.append(folder / f"{item.symbol}.o")
        paths[-1].write_bytes(content)
    written = [poisoned_tensor(spec.shape, spec.dtype) for spec in kernel.outputs + kernel.scratch]
    arrays = [*map(np.ascontiguousarray, inputs), *written]
    program, data = folder / "main.c", folder / "tensors"
    program.write_text(_program(kernel, [o.symbol for o in objects], [a.nbytes for a in arrays]))
    data.write_bytes(b"".join(a.tobytes() for a in arrays))
    executable = str(folder / "main")
    build = [_COMPILER, "-O1", "-static", str(program), *map(str, paths), "-lm", "-o", executable]
    subprocess.run(build, check=True)
    subprocess.run([_EMULATOR, "-cpu", "max", executable, str(data)], check=True)
    found, results = data.read_bytes(), []
    for array in arrays:
        results.append(np.frombuffer(found[: array.nbytes], array.dtype).reshape(array.shape))
        found = found[array.nbytes :]
    return results[len(inputs) : len(inputs) + len(kernel.outputs)]


def _program(kernel: Kernel, symbols: Sequence[str], sizes: Sequence[int]) -> str:
    pointers = ", ".join(f"t[{i}]" for i in range(len(sizes)))
    declarations, calls = [], []
    for symbol, phase in zip(symbols, kernel.phases, strict=True):
        prefetch_target = ", 0" if phase.prefetches else ""
        declarations.append(f"int32_t {symbol}();")
        first, middle = phase.first, phase.first + phase.num_tiles // 2
        for begin, end in ((middle, first + phase.num_tiles), (first, middle)):
            calls.append(f"{symbol}({pointers}, {begin}, {end}{prefetch_target});")
    return _PROGRAM % {
        "declarations": "\n".join(declarations),
        "sizes": ", ".join(map(str, sizes)),
        "calls": "\n  ".join(calls),
    }


def emulate_bfmmla(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace the instruction by multiplications and additions of float32."""
    steps = []
    for k in range(4):
        left = ", ".join(f"i32 {4 * row + k}" for row in (0, 0, 1, 1))
        right = ", ".join(f"i32 {4 * column + k}" for column in (0, 1, 0, 1))
        shuffle = "shufflevector <8 x float> {}, <8 x float> poison, <4 x i32> <{}>".format
        steps += [
            f"%l{k} = {shuffle('%x', left)}",
            f"%r{k} = {shuffle('%y', right)}",
            f"%p{k} = fmul <4 x float> %l{k}, %r{k}",
            f"%s{k + 1} = fadd <4 x float> %s{k}, %p{k}",
        ]
    widened = [
        line
        for name, operand in (("x", "a"), ("y", "b"))
        for line in (
            f"%{name}b = bitcast <4 x i32> %{operand} to <8 x i16>",
            f"%{name}w = zext <8 x i16> %{name}b to <8 x i32>",
            f"%{name}u = shl <8 x i32> %{name}w, splat (i32 16)",
            f"%{name} = bitcast <8 x i32> %{name}u to <8 x float>",
        )
    ]
    parameters = "<4 x float> %s0, <4 x i32> %a, <4 x i32> %b"
    name = bfmmla._FUNCTION
    body = "\n  ".join([*widened, *steps, "ret <4 x float> %s4"])
    source = f"define internal <4 x float> @{name}({parameters}) alwaysinline {{\n  {body}\n}}\n"
    monkeypatch.setattr(bfmmla, "_SOURCE", source)
