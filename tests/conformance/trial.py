# SPDX-License-Identifier: Apache-2.0
"""One call of what is compiled here, compared with the right answer."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from typing import Any

from tvm_ios.errors import TvmIosError

from .outcome import ERROR, REFUSED, RIGHT, WRONG, Outcome


def tried(compute: Callable[[], Any], difference: Callable[[tuple[Any, ...]], str]) -> Outcome:
    """Return what comes of a call.

    Parameters
    ----------
    compute : callable
        Compiles a model and calls it.
    difference : callable
        Returns what is wrong with the results; nothing if they are right.
    """
    try:
        results = compute()
    except TvmIosError as error:
        text = str(error)
        return Outcome(ERROR if "\n" in text else REFUSED, text)
    except Exception:
        return Outcome(ERROR, traceback.format_exc())
    said = difference(results if isinstance(results, tuple) else (results,))
    return Outcome(WRONG if said else RIGHT, said)
