# SPDX-License-Identifier: Apache-2.0
"""A graph of torch.compile answers for the weights that it is called with, whatever happens."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch

from support.torch_modules import SHAPE, OneResult, image, network
from tvm_ios import api, torch_backend


class Product(torch.nn.Module):
    def forward(self, x, weight):
        return (torch.relu(x @ weight),)


X = torch.randn(3, 5, generator=torch.Generator().manual_seed(0))


@pytest.fixture
def weight() -> torch.nn.Parameter:
    return torch.nn.Parameter(torch.randn(5, 7, generator=torch.Generator().manual_seed(1)))


@pytest.fixture
def graph(weight: torch.nn.Parameter) -> torch_backend.CompiledGraph:
    traced = torch.fx.symbolic_trace(Product())
    return torch_backend.tvm_ios(traced, [X, weight], options={"search": False})


def check(graph: torch_backend.CompiledGraph, weight: torch.nn.Parameter) -> None:
    (actual,) = graph(X, weight)
    torch.testing.assert_close(actual, torch.relu(X @ weight).detach())


def on_compile(monkeypatch: pytest.MonkeyPatch, before: Callable[[], None]) -> list[int]:
    """Have something happen whenever a graph is compiled; counts how often."""
    compile, count = api.compile, []

    def observed(*arguments: Any, **options: Any) -> api.CompiledModel:
        count.append(1)
        before()
        return compile(*arguments, **options)

    monkeypatch.setattr(api, "compile", observed)
    return count


def write(weight: torch.nn.Parameter) -> None:
    with torch.no_grad():
        weight.mul_(-2.0)


@pytest.mark.parametrize("failure", [RuntimeError("no room"), KeyboardInterrupt()])
def test_after_a_failure_the_old_weights_do_not_answer(
    graph, weight, monkeypatch: pytest.MonkeyPatch, failure: BaseException
) -> None:
    check(graph, weight)
    write(weight)
    failures = [failure, failure]

    def fail() -> None:
        if failures:
            raise failures.pop()

    count = on_compile(monkeypatch, fail)
    for _ in range(2):
        with pytest.raises(type(failure)):
            graph(X, weight)
    check(graph, weight)
    check(graph, weight)
    assert len(count) == 3


def test_threads_wait_for_new_weights(graph, weight, monkeypatch: pytest.MonkeyPatch) -> None:
    """One compiles; the others, which come meanwhile, get no answer of the old weights."""
    begun, others_came = threading.Event(), threading.Event()

    def wait() -> None:
        begun.set()
        others_came.wait(0.5)  # they are waiting by then, if they wait

    count = on_compile(monkeypatch, wait)
    write(weight)
    with ThreadPoolExecutor(4) as threads:
        first = threads.submit(check, graph, weight)
        begun.wait()
        others = [threads.submit(check, graph, weight) for _ in range(3)]
        for future in (first, *others):
            future.result()
    assert len(count) == 1


def test_weights_by_turns(graph, weight) -> None:
    """Each call is compiled for the weights that it brings."""
    other = torch.nn.Parameter(weight.detach() + 1.0)
    for _ in range(2):
        check(graph, weight)
        check(graph, other)


@torch.no_grad()
def test_a_backend_of_torch_compile() -> None:
    module, options = network(OneResult), {"search": False}
    compiled = torch.compile(module, backend=torch_backend.tvm_ios, dynamic=False, options=options)
    for batch in (2, 3):  # another shape is another network
        x = torch.randn(batch, *SHAPE[1:])
        torch.testing.assert_close(compiled(x), module(x), rtol=1e-4, atol=1e-5)
    module.head.weight.mul_(2.0)
    torch.testing.assert_close(compiled(x), module(x), rtol=1e-4, atol=1e-5)
    module.head.weight = torch.nn.Parameter(torch.randn(10, 24))
    torch.testing.assert_close(compiled(x), module(x), rtol=1e-4, atol=1e-5)
    module.head.weight.data.mul_(2.0)  # PyTorch does not count it
    torch.compiler.reset()
    torch.testing.assert_close(compiled(x), module(x), rtol=1e-4, atol=1e-5)


@torch.no_grad()
def test_a_backend_of_torch_compile_in_inference_mode() -> None:
    with torch.inference_mode():
        module = network(OneResult)  # its weights have no count of what was written to them
        options = {"search": False}
        compiled = torch.compile(
            module, backend=torch_backend.tvm_ios, dynamic=False, options=options
        )
        torch.testing.assert_close(compiled(image()), module(image()), rtol=1e-4, atol=1e-5)
        module.head.weight = torch.nn.Parameter(torch.randn(10, 24))
        torch.testing.assert_close(compiled(image()), module(image()), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("options", [{}, {"batch_sizes": [1, 4]}])
@torch.no_grad()
def test_a_dynamic_batch(monkeypatch: pytest.MonkeyPatch, options: dict[str, Any]) -> None:
    """The graph is compiled once for all sizes, with batch sizes or for any."""
    module, count = network(OneResult), on_compile(monkeypatch, lambda: None)
    compiled = torch.compile(
        module, backend=torch_backend.tvm_ios, dynamic=True, options={"search": False} | options
    )
    for batch in (3, 2, 3, 5):
        x = image(batch=batch)
        torch.testing.assert_close(compiled(x), module(x), rtol=1e-4, atol=1e-5)
    assert len(count) == 1


class Reshaping(torch.nn.Module):
    """What has the batch as a number in its graph."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x).reshape(x.shape[0] * 2, -1)


@torch.no_grad()
def test_a_batch_that_becomes_dynamic() -> None:
    """PyTorch compiles the first batch for its size, and the second one for any."""
    module, options = Reshaping().eval(), {"search": False, "batch_sizes": [2, 4]}
    compiled = torch.compile(module, backend=torch_backend.tvm_ios, options=options)
    for batch in (3, 2, 4):
        x = torch.randn(batch, 6)
        torch.testing.assert_close(compiled(x), module(x))


class Sizes(torch.nn.Module):
    """What returns sizes between its tensors."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(8, 4)

    def forward(self, x: torch.Tensor) -> tuple[int, torch.Tensor, int, torch.Tensor]:
        y = torch.relu(self.layer(x))
        return x.shape[0], y.reshape(x.shape[0] * x.shape[1], 4), x.shape[1] * 2 + 1, y.sum(1)


@torch.no_grad()
def test_sizes_that_are_returned(monkeypatch: pytest.MonkeyPatch) -> None:
    module, count = Sizes().eval(), on_compile(monkeypatch, lambda: None)
    compiled = torch.compile(
        module, backend=torch_backend.tvm_ios, dynamic=True, options={"search": False}
    )
    for rows, steps in ((3, 5), (2, 7), (9, 40)):
        x = torch.randn(rows, steps, 8)
        torch.testing.assert_close(compiled(x), module(x), rtol=1e-4, atol=1e-5)
    assert len(count) == 1


class Filtering(torch.nn.Module):
    """What cannot be compiled for any sizes."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.interpolate(x, size=(3, 3), mode="bilinear", antialias=True)


@torch.no_grad()
def test_a_graph_that_is_compiled_for_each_shape(monkeypatch: pytest.MonkeyPatch) -> None:
    module, count = Filtering().eval(), on_compile(monkeypatch, lambda: None)
    compiled = torch.compile(
        module, backend=torch_backend.tvm_ios, dynamic=True, options={"search": False}
    )
    for size in (7, 9, 7):
        x = torch.randn(2, 4, size, size + 1)
        torch.testing.assert_close(compiled(x), module(x), rtol=1e-4, atol=1e-5)
    assert len(count) == 3  # once for any, which is refused, and for each of two shapes


class Halves(torch.nn.Module):
    """What is right for even sizes alone if it is traced with one."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        first, second = x.chunk(2, 1)
        return torch.cat([second, first * 2], 1)


@torch.no_grad()
def test_sizes_that_the_general_function_does_not_take() -> None:
    module = Halves().eval()
    compiled = torch.compile(
        module, backend=torch_backend.tvm_ios, dynamic=True, options={"search": False}
    )
    for size in (6, 8, 7, 9, 2, 10):
        x = torch.randn(3, size)
        torch.testing.assert_close(compiled(x), module(x))
