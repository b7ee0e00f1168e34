# SPDX-License-Identifier: Apache-2.0
"""The inputs of a model, from a file."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tvm_ios_runtime import TensorInfo

from ..support.errors import ModelError


def read_inputs(
    path: str, expected: Sequence[TensorInfo], *, any_shape: bool = False
) -> list[np.ndarray]:
    """Read the file's arrays, in the order of the model's inputs.

    Parameters
    ----------
    path : str
    expected : sequence of TensorInfo
    any_shape : bool
        Whether to leave it to the model to check shapes, which takes several.

    Raises
    ------
    ModelError
        When the file cannot be read, or its arrays are not the inputs.
    """
    wanted = ", ".join(map(str, expected))
    try:
        with np.load(path) as file:
            arrays = dict(file) if isinstance(file, np.lib.npyio.NpzFile) else None
    except OSError as error:
        reason = error.strerror or "it is damaged"
        raise ModelError(f"Cannot read the inputs from {path}: {reason}.") from error
    except MemoryError:
        raise
    except Exception as error:  # what NumPy raises of a damaged header is not one type
        raise ModelError(f"{path} is damaged or is not an .npz file of arrays.") from error
    if arrays is None:
        raise ModelError(f"{path} has one unnamed array; the model needs an .npz with: {wanted}.")
    if set(arrays) != {info.name for info in expected}:
        found = ", ".join(sorted(arrays)) or "nothing"
        raise ModelError(f"{path} has {found}; the model needs: {wanted}.")
    for info in expected:
        array = arrays[info.name]
        if not (any_shape or info.fits(array)):
            raise ModelError(
                f"{info.name!r} in {path} is {array.dtype}{list(array.shape)}; "
                f"the model needs {info.dtype}{list(info.shape)}."
            )
    return [arrays[info.name] for info in expected]
