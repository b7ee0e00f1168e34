# SPDX-License-Identifier: Apache-2.0
"""Keys that are expensive to hash and looked up often."""

from __future__ import annotations

from collections.abc import Hashable


class Key(tuple[Hashable, ...]):
    """A tuple that computes its hash once.

    The key of a kernel contains TVM's functions, and that of a stage the keys of its kernels. A
    search looks them up millions of times.
    """

    _hash: int

    def __hash__(self) -> int:
        """Return the hash of the equal tuple, so that either finds the other in a dictionary."""
        if "_hash" not in self.__dict__:
            self._hash = super().__hash__()
        return self._hash


def remembering(key: Hashable) -> Hashable:
    """Return an equal key that caches its hash."""
    return Key(key) if isinstance(key, tuple) and not isinstance(key, Key) else key
