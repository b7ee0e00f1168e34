# SPDX-License-Identifier: Apache-2.0
"""Fixtures of all tests: the root's ``conftest.py`` imports them."""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING

import numpy as np
import pytest

if TYPE_CHECKING:
    from support.cli import Compiled
    from support.cuda.fake_driver import Emulated


@pytest.fixture(scope="session", autouse=True)
def no_cache_of_the_user(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """What the fixtures of the session measure is not kept among the user's measurements.

    The object code of kernels is kept in the checkout: tests share what others have compiled.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        patch.setenv("TVM_IOS_OBJECTS", str(Path(__file__).parents[2] / "build" / "objects"))
        yield


@pytest.fixture(autouse=True)
def caches(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty directory of caches for each test: none rests on what another has measured."""
    directory = tmp_path_factory.mktemp("cache")
    monkeypatch.setenv("XDG_CACHE_HOME", str(directory))
    return directory


@pytest.fixture(scope="session", autouse=True)
def hurried() -> Iterator[None]:
    """Searches in this process do not wait for an idle machine, and decide on few samples.

    The machine is never idle, as other tests run beside each one, and no test rests on how exact a
    latency is. How long is waited and sampled has tests of its own, with clocks of their own. The
    machine's balance is a typical one, so that kernels are chosen alike in all runs.
    """
    from tvm_ios.backend.cpu.core import TYPICAL
    from tvm_ios.backend.cpu.measure import balance
    from tvm_ios.compiler import compare
    from tvm_ios.measure import cost

    unit = TYPICAL.multiply_add
    typical = {"multiply_add": unit, "far": TYPICAL.far * unit, "memory": TYPICAL.memory * unit}
    with pytest.MonkeyPatch.context() as patch:
        asleep = partial(cost.MachineSpeed, sleep=lambda _: None)
        patch.setattr(cost, "MachineSpeed", asleep)
        patch.setattr(balance, "_measure", lambda _target: typical)
        patch.setattr(compare, "decide", partial(compare.decide, now=lambda: 10 * monotonic()))
        yield


@pytest.fixture(scope="session")
def fake_driver(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The libraries that stand in for CUDA's."""
    from support.cuda.fake_driver import build_fake_driver

    return _made_once(tmp_path_factory, "fake_driver", build_fake_driver)


@pytest.fixture(scope="session")
def emulated(fake_driver: Path) -> Iterator[Emulated]:
    """A process in which kernels for CUDA run on the CPU."""
    from support.cuda.fake_driver import Emulated

    process = Emulated(fake_driver)
    yield process
    process.close()


@pytest.fixture(scope="session")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Compiled:
    """A small network, compiled by the command line."""
    from support.cli import SHAPE, Compiled, reference, run_cli, save_branches  # needs onnx

    image = np.random.default_rng(1).standard_normal(SHAPE).astype("float32")

    def make(directory: Path) -> None:
        model = directory / "model.onnx"
        save_branches(model)
        np.savez(directory / "in.npz", image=image)
        done = run_cli(
            "compile", model, "--target", "llvm", "-o", directory / "model.so",
            "--input-shapes", "image:[1,3,24,24]", "--pass-config", "max_group_size=2",
            "--pass-config", "max_num_groups=none", "--threads", 2, "--seed", 1,
            "--schedule-out", directory / "s.json",
        )  # fmt: skip
        assert done.stderr == "" or "too busy to tell" in done.stderr
        (directory / "printed").write_text(done.stdout)

    directory = _made_once(tmp_path_factory, "cli", make)
    printed = (directory / "printed").read_text()
    return Compiled(directory, printed, reference(directory / "model.onnx", image))


def _made_once(
    tmp_path_factory: pytest.TempPathFactory, name: str, make: Callable[[Path], object]
) -> Path:
    """A directory of this process with what ``make`` writes; of a run's processes one makes it."""
    directory = tmp_path_factory.mktemp(name)
    if "PYTEST_XDIST_WORKER" not in os.environ:
        make(directory)
        return directory
    common = tmp_path_factory.getbasetemp().parent  # that of all workers
    first, unfinished = common / name, common / f"{name}.unfinished"
    with open(common / f"{name}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not first.exists():
            shutil.rmtree(unfinished, ignore_errors=True)
            unfinished.mkdir()
            make(unfinished)
            unfinished.rename(first)
    return shutil.copytree(first, directory, dirs_exist_ok=True)
