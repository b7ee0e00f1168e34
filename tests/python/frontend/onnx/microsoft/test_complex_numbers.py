# SPDX-License-Identifier: Apache-2.0
"""Complex numbers and transforms, for which ONNX Runtime has no kernels for CPUs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from support.contributed import Node, check_close, compiled, numbers
from tvm_ios.errors import ModelError


def pairs(x: np.ndarray) -> np.ndarray:
    return np.stack([x.real, x.imag], -1).astype("float32")


@pytest.mark.parametrize("kind", ["ComplexMul", "ComplexMulConj"])
def test_product(kind: str, tmp_path: Path) -> None:
    a, b = numbers(3, 1, 5, 2), numbers(4, 5, 2)
    left, right = (x[..., 0] + 1j * x[..., 1] for x in (a, b))
    wanted = left * (right.conj() if kind == "ComplexMulConj" else right)
    check_close(compiled(tmp_path, Node(kind, [a, b])), [pairs(wanted)])


@pytest.mark.parametrize("shape", [(8,), (2, 3, 6)])
def test_transforms(shape: tuple[int, ...], tmp_path: Path) -> None:
    data = numbers(*shape)
    halves = pairs(np.fft.rfft(data))
    check_close(compiled(tmp_path, Node("Rfft", [data])), [halves])
    check_close(compiled(tmp_path, Node("Irfft", [halves]), signal_ndim=1), [data])


@pytest.mark.parametrize(
    ("node", "problem"),
    [
        (Node("Rfft", [numbers(2, 7)]), "the last axis must be even"),
        (Node("Irfft", [numbers(2, 7)]), "which are no transform"),
        (Node("ComplexMul", [numbers(2, 3), numbers(2, 3)]), "the last axis must be 2"),
    ],
)
def test_what_cannot_be_is_refused(node: Node, problem: str, tmp_path: Path) -> None:
    attributes = {"signal_ndim": 1} if node.kind == "Irfft" else {}
    with pytest.raises(ModelError, match=problem):
        compiled(tmp_path, node, **attributes)


def test_several_axes_are_not_transformed(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="and signal_ndim=2; only 0, 1 and 1 are supported"):
        compiled(tmp_path, Node("Rfft", [numbers(4, 6)]), signal_ndim=2)
