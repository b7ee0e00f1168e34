# SPDX-License-Identifier: Apache-2.0
"""Digests of keys that are the same in every process.

Python's ``hash`` is seeded anew in each process, and TVM's structural hash includes addresses of
operators. A digest covers the contents of a key: numbers, texts, dataclasses, and TVM's functions
as TVM saves them.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import fields, is_dataclass
from numbers import Integral, Real

import tvm
import tvm_ffi

from ..sizes.size import Size


def digest(key: object) -> str:
    """Return 64 hexadecimal digits that are equal only for equal keys."""
    return hashlib.sha256(_text(key).encode()).hexdigest()


def _text(key: object) -> str:
    """Return an unambiguous text form of a key."""
    if key is None or isinstance(key, bool):
        return repr(key)
    if isinstance(key, str):
        return json.dumps(str(key))
    if isinstance(key, Size):
        return f"size({key})"
    if isinstance(key, Integral):
        return str(int(key))
    if isinstance(key, Real):
        return float(key).hex()
    if isinstance(key, (tuple, list)):
        return f"({','.join(map(_text, key))})"
    if is_dataclass(key):
        values = ",".join(f"{f.name}={_text(getattr(key, f.name))}" for f in fields(key))
        return f"{type(key).__qualname__}({values})"
    assert isinstance(key, tvm_ffi.StructuralKey), f"no digest of a {type(key).__name__}"
    return f"tir({hashlib.sha256(tvm.ir.save_json(key.key).encode()).hexdigest()})"
