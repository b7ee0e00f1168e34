# SPDX-License-Identifier: Apache-2.0
"""Modules under the names that they had in earlier releases."""

from __future__ import annotations

import importlib
import sys
import warnings
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

_MOVED = {
    "tvm_ios.frontend.relay": "tvm_ios.relay",
    "tvm_ios.frontend.zoo": "tvm_ios.zoo",
    "tvm_ios.measure.runners": "tvm_ios.measure.transport.locations",
    "tvm_ios_env.command": "tvm_ios_entry.command",
}


class _MovedFinder(MetaPathFinder, Loader):
    """Finds a module that has moved, as one that has the same names."""

    def find_spec(
        self, name: str, _path: Sequence[str] | None, _target: ModuleType | None = None
    ) -> ModuleSpec | None:
        return ModuleSpec(name, self) if name in _MOVED else None

    def exec_module(self, module: ModuleType) -> None:
        new = _MOVED[module.__name__]
        warnings.warn(f"{module.__name__} is {new} now.", DeprecationWarning, stacklevel=2)
        names = vars(importlib.import_module(new)).items()
        vars(module).update({name: value for name, value in names if name not in vars(module)})


def install() -> None:
    """Let moved modules be imported by their earlier names."""
    if not any(isinstance(finder, _MovedFinder) for finder in sys.meta_path):
        sys.meta_path.append(_MovedFinder())
