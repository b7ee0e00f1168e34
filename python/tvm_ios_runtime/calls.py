# SPDX-License-Identifier: Apache-2.0
"""The calls of a library's functions that need no virtual machine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import tvm_ffi

from .bits import BITS
from .library import load_library
from .open_calls import OpenCalls
from .prepared import PreparedCall
from .signatures import Signature

Call = PreparedCall | OpenCalls

_EXCHANGED = frozenset(
    (
        *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)),
        *("bool", "float16", "float32", "float64", *BITS),
    )
)
"""Types of tensors that NumPy and DLPack have, and those that are exchanged as bits."""


def prepare_calls(
    library: tvm_ffi.Module, signatures: Sequence[Signature], metadata: Mapping[str, Any]
) -> list[Call | None]:
    """Return the call of each signature of a library; None if it needs a virtual machine.

    Libraries for a GPU, and those of earlier releases, need it.

    Raises
    ------
    ImportError
        If ``libtvm_ios.so`` cannot be loaded.
    """
    calls: list[Call | None] = []
    for signature, described in zip(
        signatures, metadata.get("signatures", [metadata]), strict=True
    ):
        direct = described.get("direct")
        infos = (*signature.inputs, *signature.outputs)
        if direct is None or any(info.dtype not in _EXCHANGED for info in infos):
            calls.append(None)
            continue
        load_library()
        driver = library.get_function(direct["function"], query_imports=True)
        if signature.is_open:
            calls.append(OpenCalls(driver, signature, direct))
        else:
            calls.append(PreparedCall(driver, signature, direct["parameters"]))
    return calls
