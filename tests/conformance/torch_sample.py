# SPDX-License-Identifier: Apache-2.0
"""A call of an operator of PyTorch: as a module whose inputs are its tensors, and its results."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_leaves, tree_unflatten


class NoSingleAnswer(Exception):
    """Raised where what PyTorch computes is no answer to compare with."""


class Call(torch.nn.Module):
    """A call whose tensors are inputs, and whose other arguments are fixed."""

    def __init__(
        self, function: Callable[..., Any], args: Sequence[Any], named: Mapping[str, Any]
    ) -> None:
        super().__init__()
        self._function = function
        self._leaves, self._structure = tree_flatten((tuple(args), dict(named)))
        self._places = [i for i, leaf in enumerate(self._leaves) if _is_tensor(leaf)]
        self.eval()

    def inputs(self) -> list[torch.Tensor]:
        """Return copies of the tensors."""
        return [self._leaves[place].detach().clone() for place in self._places]

    def forward(self, *tensors: torch.Tensor) -> Any:
        leaves = list(self._leaves)
        for place, tensor in zip(self._places, tensors, strict=True):
            leaves[place] = tensor
        args, named = tree_unflatten(leaves, self._structure)
        return self._function(*args, **named)

    def in_float32(self) -> Call:
        """Return the same call on float32 in place of float16."""
        args, named = tree_unflatten(list(map(_widened, self._leaves)), self._structure)
        return Call(self._function, args, named)


def answer(call: Call) -> list[torch.Tensor]:
    """Return what PyTorch computes.

    Raises
    ------
    NoSingleAnswer
    """
    inputs = call.inputs()
    if not all(map(_is_plain, inputs)):
        raise NoSingleAnswer("an input is complex, sparse or quantised")
    try:
        with torch.no_grad(), _Randomness() as randomness:
            results = tree_leaves(call(*inputs))
    except Exception as error:
        raise NoSingleAnswer(f"PyTorch cannot compute it: {error}") from error
    if randomness.found:
        raise NoSingleAnswer("it is random")
    if any(difference([x], [y], 0, 0) for x, y in zip(inputs, call.inputs(), strict=True)):
        raise NoSingleAnswer("it changes an input")
    if not results or not all(map(_is_tensor, results)):
        raise NoSingleAnswer("a result is no tensor")
    if not all(map(_is_plain, results)):
        raise NoSingleAnswer("a result is complex, sparse or quantised")
    return results


def answer_by_float32(call: Call) -> list[torch.Tensor]:
    """Return what is computed in float32 in place of float16, rounded in the end.

    Raises
    ------
    NoSingleAnswer
    """
    types = [result.dtype for result in answer(call)]
    exact = answer(call.in_float32())
    return [result.to(dtype) for result, dtype in zip(exact, types, strict=True)]


def difference(
    results: Sequence[Any], wanted: Sequence[torch.Tensor], rtol: float, atol: float
) -> str:
    """Return what is wrong with results; nothing if they are right."""
    if len(results) != len(wanted):
        return f"{len(results)} results, not {len(wanted)}"
    for result, right in zip(results, wanted, strict=True):
        try:
            torch.testing.assert_close(
                torch.as_tensor(result), right, rtol=rtol, atol=atol, equal_nan=True
            )
        except AssertionError as error:
            return " ".join(str(error).split())
    return ""


class _Randomness(TorchDispatchMode):
    """Sees whether an operator draws random numbers."""

    found = False

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Any = None
    ) -> Any:
        self.found |= torch.Tag.nondeterministic_seeded in func.tags
        return func(*args, **(kwargs or {}))


def _is_tensor(value: object) -> bool:
    return isinstance(value, torch.Tensor)


def _is_plain(tensor: torch.Tensor) -> bool:
    return tensor.layout == torch.strided and not tensor.is_complex() and not tensor.is_quantized


def _widened(value: Any) -> Any:
    if _is_tensor(value) and value.dtype == torch.float16:
        return value.float()
    return torch.float32 if value is torch.float16 else value
