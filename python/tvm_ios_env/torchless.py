# SPDX-License-Identifier: Apache-2.0
"""A way to keep TVM from importing PyTorch, which takes as long as importing TVM itself."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager


class _NoTorch:
    """An import finder that hides torch; ``None`` in ``sys.modules`` would confuse scipy."""

    def find_spec(self, name: str, *_arguments: object) -> None:
        if name == "torch":
            raise ModuleNotFoundError("torch is not needed here", name=name)


def hide_torch() -> None:
    """Hide PyTorch from this process."""
    sys.meta_path.insert(0, _NoTorch())


@contextmanager
def torch_hidden() -> Iterator[None]:
    """Hide PyTorch from imports inside the ``with`` block."""
    hide_torch()
    finder = sys.meta_path[0]
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
