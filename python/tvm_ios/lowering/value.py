# SPDX-License-Identifier: Apache-2.0
"""What operators read: values of the function, and constants."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from tvm import relax

Value: TypeAlias = relax.Var | np.ndarray
"""A value of the function, or a constant."""


def identity(value: Value) -> object:
    """Return a key that is equal for the same value of a function, or for the same array."""
    return value if isinstance(value, relax.Var) else id(value)
