# SPDX-License-Identifier: Apache-2.0
"""A check of files that ``torch.export.save`` wrote, before torch reads them.

``torch.export.load`` executes what a file says in many places: it unpickles tensors, objects and
example inputs, evaluates shape expressions, looks up functions by name to call them, imports
modules that containers name, and loads compiled code. An ordinary program needs shape expressions
of a few functions, and none of the others. A file is checked here against a list of what is
allowed. Everything else requires trust.
"""

from __future__ import annotations

import io
import json
import re
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ...support.errors import ModelError
from .size_texts import is_guard, is_size

_MEMBERS = re.compile(
    r"archive_format|archive_version|byteorder|\.data/\w+|\.format_version|\.storage_alignment"
    r"|models/[^/]+\.json"
    r"|data/weights/(?:weight_\d+|[^/]+_weights_config\.json)"
    r"|data/constants/(?:tensor_\d+|[^/]+_constants_config\.json)"
    r"|data/sample_inputs/[^/]+\.pt"
    r"|extra/.*",
    re.ASCII,
)
_PROGRAM = re.compile(r"models/[^/]+\.json")
_CONFIG = re.compile(r"data/[^/]+/[^/]+_config\.json")
_INPUTS = re.compile(r"data/sample_inputs/[^/]+\.pt")
_PAYLOAD = re.compile(r"(?:weight|tensor)_\d+", re.ASCII)
_TARGET = re.compile(
    r"torch\.ops\.(?:aten|prims)\.(?!from_file)\w+\.\w+|_operator\.getitem"
    r"|torch\.ops\.quantized_decomposed\.(?:de)?quantize_per_(?:tensor|channel)\.default"
    r"|torch\.ops\.higher_order\.(?:wrap_with_set_grad_enabled|wrap_with_autocast)"
    r"|_operator\.(?:add|sub|mul|floordiv|mod|neg|pow|truediv|eq|ne|lt|le|gt|ge|and_|or_|not_)"
    r"|torch\.sym_(?:max|min|not|float|int)|math\.(?:ceil|floor|trunc)",
    re.ASCII,
)
_KINDS = frozenset(
    f"as_{kind}{plural}"
    for kind in (
        "none", "name", "tensor", "int", "float", "string", "sym_int", "scalar_type",
        "memory_format", "layout", "device", "bool", "graph", "optional_tensor", "complex",
        "nested_tensor", "int_list", "float_list", "expr", "sym_bool", "sym_float",
    )
    for plural in ("", "s")
)  # fmt: skip
_WORD = re.compile(r"[\w.+/:-]*", re.ASCII)  # characters that cannot form code
# Texts that torch does not evaluate, or that are checked separately.
_FREE = ("metadata", "as_string", "as_strings", "in_spec", "out_spec")
_CONTAINERS = (None, "builtins.tuple", "builtins.list", "builtins.dict", "collections.OrderedDict")


class _Untrusted(Exception):
    """An element that is not allowed, by its name."""


def check_exported(path: Path) -> None:
    """Check that a file contains a program of operators and tensors, and nothing that is executed.

    Raises
    ------
    ModelError
        If it contains something else, is damaged, or has an older format, which cannot be checked.
    """
    try:
        _check(path)
    except _Untrusted as found:
        raise ModelError(
            f"{path} has {found}, so that reading it may execute code; if you trust its source, "
            "pass --trust (trust=True in Python)."
        ) from None


def _check(path: Path) -> None:
    import torch
    from torch.export.pt2_archive._package import PT2ArchiveReader

    with zipfile.ZipFile(path) as archive:
        if "version" in archive.namelist():
            raise _Untrusted("an older format")
    with PT2ArchiveReader(str(path)) as reader:  # torch's own reader: a zip file is ambiguous
        for name in reader.get_file_names():
            if not _MEMBERS.fullmatch(name):
                raise _Untrusted(f"the member {name[:80]!r}")
            if _PROGRAM.fullmatch(name):
                _check_program(json.loads(reader.read_string(name)))
            elif _CONFIG.fullmatch(name):
                _check_payloads(json.loads(reader.read_string(name)))
            elif _INPUTS.fullmatch(name):
                try:
                    torch.load(io.BytesIO(reader.read_bytes(name)), weights_only=True)
                except Exception:  # unpickling raises various types
                    raise _Untrusted("example inputs that are not tensors alone") from None


def _check_payloads(config: Any) -> None:
    """Check that weights and constants are plain tensors."""
    for value in config["config"].values():
        if value.get("use_pickle") or not _PAYLOAD.fullmatch(value["path_name"]):
            raise _Untrusted("pickled tensors or objects")
    _check_words(config)


def _check_program(program: Any) -> None:
    for guard in program.get("guards_code") or ():
        if not is_guard(guard):
            raise _Untrusted(f"the guard {guard[:80]!r}")
    _check_words({name: value for name, value in program.items() if name != "guards_code"})
    for call in program["graph_module"]["module_call_graph"]:
        signature = call.get("signature") or {}
        for spec in ("in_spec", "out_spec"):
            if spec in signature:
                _check_containers(json.loads(signature[spec])[1])


def _check_words(document: Any) -> None:
    """Check all texts of a document: kinds of arguments, called functions, and names."""
    for key, value in _entries(document):
        if key.startswith("as_") and key not in _KINDS:
            raise _Untrusted(f"the argument {key[:80]!r}")
        if not isinstance(value, str):
            continue
        if key == "expr_str":
            if not is_size(value):
                raise _Untrusted(f"the size {value[:80]!r}")
            continue
        if key == "target" and not _TARGET.fullmatch(value):
            raise _Untrusted(f"a call of {value[:80]!r}")
        if not _WORD.fullmatch(value):
            raise _Untrusted(f"the name {value[:80]!r}")


def _entries(document: Any) -> Iterator[tuple[str, Any]]:
    """Yield all keys with their values; elements of a list have the key of the list."""
    waiting = [("", document)]
    while waiting:
        key, value = waiting.pop()
        yield key, value
        if isinstance(value, dict):
            yield from ((key, name) for name in value)
            waiting += [item for item in value.items() if item[0] not in _FREE]
        elif isinstance(value, list):
            waiting += [(key, part) for part in value]


def _check_containers(spec: Any) -> None:
    """Check that arguments and results are in Python's own containers."""
    waiting = [spec]
    while waiting:
        part = waiting.pop()
        if part["type"] not in _CONTAINERS:
            raise _Untrusted(f"the container {str(part['type'])[:80]!r}")
        keys = json.loads(part["context"]) if part["context"] else None
        if not all(isinstance(key, str | int) for key in keys or ()):
            raise _Untrusted("a container with keys that are objects")
        waiting += part["children_spec"]
