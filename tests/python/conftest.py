# SPDX-License-Identifier: Apache-2.0
"""What is made once for all tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

if TYPE_CHECKING:
    from cli_support import Compiled
    from cuda_support import Emulated


@pytest.fixture(scope="session", autouse=True)
def _no_cache_of_the_user(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """What the fixtures of the session measure is not kept among the user's measurements."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(autouse=True)
def caches(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty directory of caches for each test: none rests on what another has measured."""
    directory = tmp_path_factory.mktemp("cache")
    monkeypatch.setenv("XDG_CACHE_HOME", str(directory))
    return directory


@pytest.fixture(scope="session")
def standin(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The libraries that stand in for CUDA's."""
    from cuda_support import build_standin

    return build_standin(tmp_path_factory.mktemp("standin"))


@pytest.fixture(scope="session")
def emulated(standin: Path) -> Iterator[Emulated]:
    """A process in which kernels for CUDA run on the CPU."""
    from cuda_support import Emulated

    process = Emulated(standin)
    yield process
    process.close()


@pytest.fixture(scope="session")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Compiled:
    """A small network, compiled by the command line."""
    from cli_support import SHAPE, Compiled, reference, run_cli, save_branches  # needs onnx

    directory = tmp_path_factory.mktemp("cli")
    model = directory / "model.onnx"
    save_branches(model)
    image = np.random.default_rng(1).standard_normal(SHAPE).astype("float32")
    np.savez(directory / "in.npz", image=image)
    done = run_cli(
        "compile", model, "--target", "llvm", "-o", directory / "model.so",
        "--input-shapes", "image:[1,3,24,24]", "--pass-config", "max_group_size=2",
        "--pass-config", "max_num_groups=none", "--threads", 2, "--seed", 1,
        "--schedule-out", directory / "s.json",
    )  # fmt: skip
    assert done.stderr == ""
    return Compiled(directory, done.stdout, reference(model, image))
