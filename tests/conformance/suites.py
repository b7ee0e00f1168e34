# SPDX-License-Identifier: Apache-2.0
"""The suites; a module of each, which is imported when its tests are needed."""

from __future__ import annotations

from collections.abc import Collection
from importlib import import_module
from typing import Protocol, cast

from .outcome import Outcome

ONNX, VARIANTS, OPEN, TORCH, PEERS = "onnx", "variants", "open", "torch", "peers"
FORMS = {
    ONNX: ("as is", "deciding", "weights", "constants"),
    VARIANTS: ("types", "opsets"),
    OPEN: ("batch", "data", "all"),
    TORCH: ("float32", "float16"),
    PEERS: ("ONNX Runtime", "OpenVINO"),
}
"""The names of each suite's forms, the suites in the order in which they run."""


class Suite(Protocol):
    """What the module of a suite defines."""

    def names(self, form: str) -> Collection[str]:
        """Return the names of the tests that there are in a form."""

    def outcome_of(self, name: str, form: str) -> Outcome:
        """Return what comes of a test."""


def find(name: str) -> Suite:
    """Return a suite by its name.

    Raises
    ------
    ImportError
        If a package is missing that the suite needs.
    """
    return cast(Suite, import_module(f".{name}_suite", __package__))
