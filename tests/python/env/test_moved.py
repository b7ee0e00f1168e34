# SPDX-License-Identifier: Apache-2.0
"""Modules that have moved are found by their earlier names, with a warning."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator

import pytest

EARLIER = {
    "tvm_ios.frontend.relay": ("tvm_ios.relay", "load"),
    "tvm_ios.frontend.zoo": ("tvm_ios.zoo", "load"),
    "tvm_ios.measure.runners": ("tvm_ios.measure.transport.locations", "LocalRunner"),
    "tvm_ios_env.command": ("tvm_ios_entry.command", "main"),
}


@pytest.fixture(autouse=True)
def _not_imported_yet() -> Iterator[None]:
    yield
    for name in EARLIER:
        sys.modules.pop(name, None)


@pytest.mark.parametrize("name", EARLIER)
def test_an_earlier_name_has_the_same_members(name: str) -> None:
    new, member = EARLIER[name]
    with pytest.warns(DeprecationWarning, match=f"{name} is {new} now"):
        earlier = importlib.import_module(name)
    module = importlib.import_module(new)
    assert getattr(earlier, member) is getattr(module, member)
    assert module.__spec__ is not None
    assert module.__spec__.name == new


@pytest.mark.filterwarnings("ignore:tvm_ios.frontend.zoo is")
def test_it_can_be_imported_from_its_package() -> None:
    from tvm_ios.frontend import zoo

    assert "squeezenet" in zoo.names()


def test_other_names_are_still_unknown() -> None:
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("tvm_ios.frontend.no_such_module")
