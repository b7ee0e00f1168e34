# SPDX-License-Identifier: Apache-2.0
"""CUDA graphs that are replayed: often, from elsewhere, by several threads, and without memory."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
import tvm
from tvm import relax

import tvm_ios
from gpu_support import DIVISIONS, branches, compile_variants, image, run, target
from support.networks import assert_close, compile_plain, relax_module, run_vm
from tvm_ios.cli.main import USER_ERROR
from tvm_ios_env.gpu import gpus


@pytest.mark.parametrize("partitioning", DIVISIONS)
def test_a_thousand_replays_are_the_same(partitioning: str) -> None:
    variants = compile_variants(branches(), [partitioning])
    (first,) = run(variants, partitioning, [image()])
    for _ in range(1000):
        (again,) = run(variants, partitioning, [image()])
        np.testing.assert_array_equal(again, first)


def test_inputs_come_from_anywhere() -> None:
    """Each has memory of its own, which is held so that none gets another's."""
    mod = branches()
    variants, plain = compile_variants(mod, ["streams"]), compile_plain(mod)
    held = []
    for seed in range(8):
        held.append(tvm.runtime.empty((1 + seed, 1000), "float32", tvm.cuda(0)))
        (actual,) = run(variants, "streams", [image(seed)])
        assert_close(actual, run_vm(plain, [image(seed)])[0])


def test_two_threads_with_a_model_each() -> None:
    models = [
        tvm_ios.compile(branches(seed=seed), target=target(), search=False) for seed in (0, 10)
    ]
    expected = [model(image()) for model in models]
    assert np.abs(expected[0] - expected[1]).max() > 1e-3
    wrong: list[int] = []

    def replay(number: int) -> None:
        for _ in range(200):
            if not np.array_equal(models[number](image()), expected[number]):
                wrong.append(number)

    threads = [threading.Thread(target=replay, args=(n,)) for n in (0, 1, 0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_two_devices() -> None:
    if len(gpus().devices) < 2:
        pytest.skip("there is one GPU")
    mod = branches()
    results = [run(compile_variants(mod, ["streams"], i), "streams", [image()])[0] for i in (0, 1)]
    assert_close(results[0], results[1])


def test_out_of_memory_is_one_sentence(tmp_path: Path) -> None:
    """A product of a column and a row that no GPU has room for."""

    def body(emit, x, y):
        product = emit(relax.op.matmul(x, y))
        return emit(relax.op.max(emit(relax.op.matmul(product, x))))

    huge = 1_000_000
    path = tmp_path / "huge.so"
    model = tvm_ios.compile(relax_module(body, (huge, 1), (1, huge)), target=target(), search=False)
    model.save(path)
    done = subprocess.run(
        [sys.executable, "-m", "tvm_ios", "run", str(path)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == USER_ERROR
    assert "Traceback" not in done.stderr
    last = done.stderr.splitlines()[-1]  # TVM has warned before
    assert last.startswith("error: ")
    assert "memory" in last
