# SPDX-License-Identifier: Apache-2.0
"""Libraries for a CUDA device, run by ``tvm_ios_runtime`` alone in a process of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import tvm_ios
from support.cuda.cli import command
from support.cuda.fake_driver import Emulated, with_fake_driver
from support.networks import assert_close, compile_plain, random_arguments, run_vm

NETWORKS = ("nasrnn_small", "randwire_tiny")
PROGRAM = """
import sys, threading
import numpy as np
import tvm_ios_runtime

names, results, failures = sys.argv[1:], {}, []

def work(number):
    try:  # a model is for one thread
        models = [tvm_ios_runtime.load(f"{name}.so", number) for name in names]
        for turn in range(3):  # the first is captured
            for name, model in zip(names, models):
                inputs = np.load(f"{name}.npz")
                arrays = [inputs[info.name] * (turn + 1) for info in model.inputs]
                results[f"{name} {number} {turn}"] = model(*arrays)[0]
    except BaseException as error:
        failures.append(error)

threads = [threading.Thread(target=work, args=(number,)) for number in (0, 0, 1)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
assert not failures, failures
assert "tvm" not in sys.modules and "tvm_ios" not in sys.modules
np.savez("results.npz", **results)
"""


@pytest.mark.slow
def test_two_models_in_three_threads_on_two_devices(
    emulated: Emulated, fake_driver: Path, tmp_path: Path
) -> None:
    expected = {}
    for name in NETWORKS:
        mod = tvm_ios.zoo.load(name)
        line = f"compile zoo:{name} --target cuda --no-search -o {name}.so"
        status, _, error, _ = emulated.call(command, tmp_path, line.split(), {})
        assert status == 0, error
        arguments = random_arguments(mod)
        names = [parameter.name for parameter in mod["main"].params]
        np.savez(tmp_path / f"{name}.npz", **dict(zip(names, arguments, strict=True)))
        executable = compile_plain(mod)
        for turn in range(3):
            (expected[name, turn],) = run_vm(executable, [a * (turn + 1) for a in arguments])
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *NETWORKS], cwd=tmp_path, env=with_fake_driver(fake_driver),
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    made = np.load(tmp_path / "results.npz")
    for (name, turn), wanted in expected.items():
        for number in (0, 1):
            assert_close(made[f"{name} {number} {turn}"], wanted.astype("float32"), 1e-5)
