# SPDX-License-Identifier: Apache-2.0
"""Threads that compile modules at once, by ``tvm_ios.compile`` and by ``torch.compile``."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any

import pytest
import torch

import tvm_ios
from tvm_ios import torch_backend

THREADS, TIMES = 4, 3
OPTIONS = {"search": False, "threads": 1}


@pytest.fixture(autouse=True)
def _switching() -> Iterator[None]:
    """Let threads take turns after a hundredth of the time that they usually have."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(before / 100)
    yield
    sys.setswitchinterval(before)


def module(seed: int) -> torch.nn.Module:
    torch.manual_seed(seed)
    return torch.nn.Sequential(torch.nn.Linear(5, 6 + seed), torch.nn.ReLU()).eval()


@torch.no_grad()
def test_threads_compile_modules() -> None:
    begin, x = threading.Barrier(THREADS), torch.ones(2, 5)

    def compile_several(modules: list[torch.nn.Module]) -> None:
        begin.wait()
        for one in modules:
            compiled = tvm_ios.compile(one, [x], **OPTIONS)
            torch.testing.assert_close(compiled(x), one(x).detach(), rtol=1e-4, atol=1e-5)

    modules = [[module(TIMES * n + i) for i in range(TIMES)] for n in range(THREADS)]
    with ThreadPoolExecutor(THREADS) as pool:
        for done in [pool.submit(compile_several, each) for each in modules]:
            done.result()


class Branch(torch.nn.Module):
    """A module for whose export PyTorch compiles the two functions, under Dynamo's lock."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cond(x.sum() > 0, torch.relu, torch.tanh, (x,))


def test_a_module_is_exported_while_dynamo_waits() -> None:
    """Dynamo calls this package under its lock, which PyTorch's export takes, too."""
    x = torch.ones(2, 5)

    def export() -> tvm_ios.CompiledModel:
        return tvm_ios.compile(Branch().eval(), [x], **OPTIONS)

    def backend(graph: torch.fx.GraphModule, inputs: list[torch.Tensor]) -> Any:
        exports.append(pool.submit(export))
        wait(exports, 1)  # it may have to wait for this thread
        return torch_backend.tvm_ios(graph, inputs, options=OPTIONS)

    exports: list[Future[tvm_ios.CompiledModel]] = []
    with ThreadPoolExecutor(2) as pool:
        compiled = pool.submit(torch.compile(torch.tanh, backend=backend), x)
        torch.testing.assert_close(compiled.result(300), torch.tanh(x), rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(exports[0].result(300)(x), torch.relu(x))
