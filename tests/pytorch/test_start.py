# SPDX-License-Identifier: Apache-2.0
"""The command line loads PyTorch for what needs it alone."""

from __future__ import annotations

import sys
from importlib import util

import pytest
import torch  # noqa: F401

from tvm_ios_entry.command import main as command


@pytest.mark.parametrize(
    ("arguments", "wanted"),
    [
        (["compile", "model.onnx", "-o", "m.so"], False),
        (["show", "s.json"], False),
        (["compile", "model.pt2", "-o", "m.so"], True),
        (["show", "s.json", "--model=model.pt2"], True),
        (["bench", "zoo:squeezenet"], True),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else str(value),
)
def test_torch_is_loaded_for_what_needs_it(arguments, wanted, monkeypatch) -> None:
    """Where it is not, it can still be imported later."""
    found = []

    class Loading:
        def __getattr__(self, name: str) -> object:
            try:
                found.append(util.find_spec("torch") is not None)
            except ModuleNotFoundError:
                found.append(False)
            return lambda: 0

    monkeypatch.delitem(sys.modules, "torch")
    monkeypatch.setitem(sys.modules, "tvm_ios.cli.main", Loading())
    monkeypatch.setattr(sys, "argv", ["tvm-ios", *arguments])
    assert command() == 0
    assert set(found) == {wanted}
    assert util.find_spec("torch") is not None
