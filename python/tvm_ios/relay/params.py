# SPDX-License-Identifier: Apache-2.0
"""Reading of the file of parameters that is saved beside a Relay model.

TVM's own loader accepts a truncated file and fills the missing part with arbitrary memory.
"""

from __future__ import annotations

import os
import struct
from pathlib import Path

import numpy as np

from ..support.errors import RelayError
from .tensors import read_tensor

_MAGIC = struct.pack("<QQ", 0xF7E58D4F05049CB7, 0)
_SIZE = struct.Struct("<Q")


def load_params(path: str | os.PathLike[str]) -> dict[str, np.ndarray]:
    """Read a file that ``tvm.runtime.save_param_dict`` or ``relay.save_param_dict`` wrote.

    Parameters
    ----------
    path : path
        The file.

    Returns
    -------
    dict of str to np.ndarray
        Arrays by name, which are read-only views of the file's content.

    Raises
    ------
    RelayError
        If there is no such file, or it is of another kind or damaged.
    """
    try:
        data = Path(path).read_bytes()
    except (OSError, ValueError) as error:  # ValueError: a null character in the path
        reason = getattr(error, "strerror", None) or error
        raise RelayError(f"Cannot read {os.fspath(path)}: {reason}.") from None
    if data[: len(_MAGIC)] != _MAGIC:
        raise RelayError(
            f"{os.fspath(path)} is not a file of parameters; write one with "
            "tvm.runtime.save_param_dict."
        )
    try:
        return _params(data)
    except (ValueError, struct.error) as error:
        raise RelayError(f"{os.fspath(path)} is damaged: {error}") from None


def _params(data: bytes) -> dict[str, np.ndarray]:
    """Parse the names and the tensors that follow them."""
    (count,), at = _SIZE.unpack_from(data, len(_MAGIC)), len(_MAGIC) + _SIZE.size
    names: list[str] = []
    for _ in range(count):
        (length,), at = _SIZE.unpack_from(data, at), at + _SIZE.size
        if at + length > len(data):
            raise ValueError("A name is cut off.")
        names.append(data[at : at + length].decode())
        at += length
    (tensors,), at = _SIZE.unpack_from(data, at), at + _SIZE.size
    if tensors != count:
        raise ValueError(f"It has {count} names for {tensors} tensors.")
    params: dict[str, np.ndarray] = {}
    for name in names:
        try:
            params[name], at = read_tensor(data, at)
        except ValueError as error:
            raise ValueError(f"Parameter {name!r}: {error}") from None
    return params
