# SPDX-License-Identifier: Apache-2.0
"""Keys that remember their hash are as good as the tuples that they are."""

from __future__ import annotations

from tvm_ios.database.digest import digest
from tvm_ios.support.keys import Key, remembering


class Counted:
    """Counts how often it is hashed."""

    hashed = 0

    def __hash__(self) -> int:
        self.hashed += 1
        return 1


def test_a_key_is_hashed_once() -> None:
    part = Counted()
    key = remembering(("conv2d", part))
    assert key in {key}
    assert {key: 1}[key] == 1
    assert part.hashed == 1


def test_a_key_equals_its_tuple() -> None:
    plain = ("conv2d", (1, 2))
    key = remembering(plain)
    assert isinstance(key, Key)
    assert remembering(key) is key
    assert key == plain
    assert {plain: "found"}[key] == {key: "found"}[plain] == "found"
    assert digest(key) == digest(plain)


def test_what_is_no_tuple_stays_as_it_is() -> None:
    assert remembering("alone") == "alone"
