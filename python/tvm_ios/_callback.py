# SPDX-License-Identifier: Apache-2.0
"""Python functions that C++ calls back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["CallbackGuard"]


class CallbackGuard:
    """Carries an exception of a callback across C++ unharmed.

    What crosses a C++ frame is an exception's kind and message: KeyboardInterrupt, OSError or a
    type of the user's own would arrive as RuntimeError. The guard keeps the object, and raises it
    again where the C++ call returns::

        with CallbackGuard(cost) as callback:
            cpp_function(callback)

    Parameters
    ----------
    function
        The callback.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self._error: BaseException | None = None

    def __call__(self, *args: Any) -> Any:
        """Call the function, and keep what it raises."""
        try:
            return self._function(*args)
        except BaseException as error:
            self._error = error
            raise

    def __enter__(self) -> CallbackGuard:
        """Return the guard itself: it is what C++ calls."""
        return self

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        """Replace what came out of C++ by what the callback raised."""
        if error is not None and self._error is not None:
            raise self._error from None
