# SPDX-License-Identifier: Apache-2.0
"""Reference results in double precision, computed by TVM's default lowering for the CPU."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache

import ml_dtypes
import numpy as np
import tvm
from tvm import relax

from ..target import resolve
from .cases import Case
from .checks import KernelFault

Rounding = Callable[[np.ndarray], np.ndarray]
"""A function that rounds float64 numbers to those of a lower precision."""

EXACT = 1e-5
"""The tolerance for the order of a float32 sum, relative to the largest value."""

TOLERANCE = {"fp32": EXACT, "tf32": 1e-2, "fp16": 1e-2, "bf16": 8e-2}
"""The tolerance for rounding the factors of several operators, relative to the largest value."""


@dataclass(frozen=True)
class DoubleReference:
    """The reference of a case in double precision, computed by kernels independent of ours."""

    _rounded: Rounding
    _machine: relax.VirtualMachine

    def __call__(self, inputs: Sequence[np.ndarray]) -> np.ndarray:
        doubles = (self._rounded(x.astype("float64")) for x in inputs)
        return self._machine["main"](*map(tvm.runtime.tensor, doubles)).numpy()


@cache
def reference(case: Case, factors: str = "fp32") -> DoubleReference:
    """Compile the reference of a case, once per process.

    Parameters
    ----------
    case : Case
        The network.
    factors : str
        The precision that factors are rounded to before they are multiplied.
    """
    rounded = ROUNDING[factors] if case.product else ROUNDING["fp32"]
    mod, target = case.module("float64", rounded), _unoptimised()
    executable = tvm.compile(mod, target, relax_pipeline=relax.get_default_pipeline(target))
    return DoubleReference(rounded, relax.VirtualMachine(executable, tvm.cpu()))


def compare(actual: np.ndarray, expected: np.ndarray, most: float = EXACT) -> str:
    """Check the relative error and return it as text.

    Parameters
    ----------
    actual, expected : numpy.ndarray
        The result and its reference.
    most : float
        The tolerance, relative to the largest expected value.

    Raises
    ------
    KernelFault
        If the error is above ``most``.
    """
    error = relative_error(actual, expected)
    if not error <= most:  # also rejects NaN
        raise KernelFault(f"The result is off by {error:.1e} of the largest value, above {most:g}.")
    return f"error {error:.1e}"


def relative_error(actual: np.ndarray, expected: np.ndarray) -> float:
    """Return the largest difference over the largest expected value; NaN if a value is NaN.

    Raises
    ------
    KernelFault
        If the shapes differ.
    """
    if actual.shape != expected.shape:
        raise KernelFault(f"The result has shape {actual.shape} instead of {expected.shape}.")
    scale = np.abs(expected).max(initial=np.finfo("float32").tiny)
    return float(np.abs(actual.astype("float64") - expected).max(initial=0.0) / scale)


def round_to_tf32(values: np.ndarray) -> np.ndarray:
    """Round to 11 significant bits, ties away from zero."""
    bits = values.astype("float32").view("uint32")
    return ((bits + 0x1000) & 0xFFFFE000).view("float32").astype("float64")


ROUNDING: dict[str, Rounding] = {
    "fp32": lambda values: values,
    "tf32": round_to_tf32,
    "fp16": lambda values: values.astype("float16").astype("float64"),
    "bf16": lambda values: values.astype(ml_dtypes.bfloat16).astype("float64"),
}
"""The rounding of factors in each precision."""


@cache
def _unoptimised() -> tvm.target.Target:
    """Return a target that compiles quickly, for code that runs once."""
    return resolve('{"kind": "llvm", "opt-level": 0}')
