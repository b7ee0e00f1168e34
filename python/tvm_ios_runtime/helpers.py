# SPDX-License-Identifier: Apache-2.0
"""The threads that help callers of compiled models: those of C++, which all models share."""

from __future__ import annotations

from typing import NamedTuple

import tvm_ffi

from tvm_ios_env.machine import default_threads

from .library import load_library

SET_LAUNCHER = "tvm_ios_set_launcher"
"""The function of a library that stores what runs its launches.

It points to two functions: one runs a program, as ``HelperPool::Run`` does, and one waits until
nobody looks at a program any more, which is to be unloaded.
"""


def use_helpers(library: tvm_ffi.Module) -> bool:
    """Let a library run on the helpers of this process, if it can; return whether it does.

    Libraries of earlier releases run on TVM's thread pool, and those for one thread on none.

    Raises
    ------
    ImportError
        If ``libtvm_ios.so`` cannot be loaded.
    """
    try:
        set_launcher = library.get_function(SET_LAUNCHER, query_imports=True)
    except AttributeError:
        return False
    load_library()
    tvm_ffi.get_global_func("tvm_ios.runtime.UseHelpers")(set_launcher, default_threads())
    return True


class HelperCounts(NamedTuple):
    """What the helpers of this process have done.

    Attributes
    ----------
    launches : int
        Runs of models for several threads.
    helped : int
        Those that helpers were invited to.
    units : int
        The pieces of work of these.
    stolen : int
        Pieces that were computed by another thread than the one that they were planned for.
    lent : int
        How often a thread gave its core to another one that had lost its own.
    """

    launches: int
    helped: int
    units: int
    stolen: int
    lent: int


def helper_counts() -> HelperCounts:
    """Return what the helpers of this process have done until now."""
    load_library()
    return HelperCounts(*map(int, tvm_ffi.get_global_func("tvm_ios.runtime.HelperCounts")()))
