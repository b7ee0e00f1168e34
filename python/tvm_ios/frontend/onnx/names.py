# SPDX-License-Identifier: Apache-2.0
"""The modules that the nodes of an ONNX model are from."""

from __future__ import annotations

import re


def path_of_node(name: str, kind: str) -> str:
    """Return the module of an ONNX node by its name.

    PyTorch names a node for the modules that it is in, and an element of a sequence by the path
    from there: ``/features/features.3/features.3.0/Conv_1`` is in ``features.3.0``. Names in
    another style are kept.
    """
    *scopes, last = name.strip("/").split("/")
    if not re.fullmatch(rf"{re.escape(kind)}(_\d+)?", last) or not scopes:
        return name.strip("/").replace("/", ".")
    path: list[str] = []
    for scope in scopes:
        repeated = next((i for i in range(len(path)) if _begins(scope, path[i:])), len(path))
        path = [*path[:repeated], *scope.split(".")]
    return ".".join(path)


def _begins(scope: str, path: list[str]) -> bool:
    return scope.startswith(".".join(path) + ".")
