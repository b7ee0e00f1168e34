# SPDX-License-Identifier: Apache-2.0
"""A kernel that gets no memory ends the call in a sentence, whichever thread ran it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from tvm import relax
from tvm.tirx.script import builder as T

import tvm_ios
from support.networks import relax_module
from tvm_ios.backend.cpu.kernels.kernel import Kernel, Phase
from tvm_ios.backend.cpu.kernels.layout import PLAIN
from tvm_ios.backend.cpu.rules import RULES, Choice
from tvm_ios.ops.tensor import TensorSpec
from tvm_ios.ops.tir_function import tile_scope

ROWS, LARGE = 8, 1 << 30
PROGRAM = """
import resource
import sys
import numpy as np
import tvm_ios_runtime

path, limited = sys.argv[1:]
model = tvm_ios_runtime.load(path)
x = np.arange(8, dtype="float32")
if limited == "limited":
    pages = int(open("/proc/self/statm").read().split()[0])
    limit = pages * resource.getpagesize() + (1 << 30)
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
for _ in range(2):
    try:
        print(model(x)[0].tolist())
    except Exception as error:
        print(str(error).splitlines()[-1])
"""


def wasteful(op: Any, binder: Any, config: Any) -> Choice:
    """A kernel that needs eight gigabytes for a row, of which it uses one number."""

    def emit(buffers: Sequence[Any], begin: Any, extent: Any) -> None:
        source, result = buffers
        with T.serial(begin, begin + extent) as row, tile_scope():
            large = T.alloc_buffer((LARGE,), "float64", layout=None)
            T.buffer_store(large, T.Cast("float64", source[row]), [row])
            T.buffer_store(result, T.Cast("float32", large[row]) + T.float32(1), [row])

    spec = TensorSpec((ROWS,))
    kernel = Kernel("wasteful", ("wasteful",), (spec,), (spec,), phases=(Phase(ROWS, emit),))
    return Choice(kernel, (binder.plain(op.call.args[0]),), PLAIN)


@pytest.mark.parametrize("threads", [1, 2])
def test_a_sentence_says_so(threads: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(RULES, "softmax", wasteful)
    mod = relax_module(lambda emit, x: emit(relax.op.nn.softmax(x)), (ROWS,))
    path = tmp_path / "model.so"
    tvm_ios.compile(mod, search=False, threads=threads).save(path)
    for limited, line in (
        ("limited", "memory"),
        ("free", str([float(row + 1) for row in range(ROWS)])),
    ):
        command = [sys.executable, "-c", PROGRAM, str(path), limited]
        done = subprocess.run(command, capture_output=True, text=True)
        first, second = done.stdout.splitlines()
        assert line in first, done.stderr
        assert line in second, done.stderr
