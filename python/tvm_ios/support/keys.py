# SPDX-License-Identifier: Apache-2.0
"""Keys of what is deep to hash, and looked up often."""

from __future__ import annotations

from collections.abc import Hashable


class Key(tuple[Hashable, ...]):
    """A tuple that computes its hash once.

    The key of a kernel has TVM's functions in it, that of a stage the keys of its kernels; a search
    looks them up millions of times.
    """

    _hash: int

    def __hash__(self) -> int:
        """As a tuple's, so that either is found by the other."""
        if "_hash" not in self.__dict__:
            self._hash = super().__hash__()
        return self._hash


def remembering(key: Hashable) -> Hashable:
    """An equal key that is not slow to hash again."""
    return Key(key) if isinstance(key, tuple) and not isinstance(key, Key) else key
