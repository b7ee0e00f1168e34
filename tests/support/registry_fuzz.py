# SPDX-License-Identifier: Apache-2.0
"""Calls the functions that C++ registers with random arguments; run as a process of its own.

``python -m support.registry_fuzz SEED CALLS JOURNAL`` writes each call to the journal before it
makes it: the last line of a process that ended early is the call that ended it.
"""

from __future__ import annotations

import os
import resource
import sys
from pathlib import Path

import tvm_ffi
from tvm_ffi.registry import list_global_func_names

from support.registry_arguments import PREFIX, draw
from support.registry_world import World
from tvm_ios.errors import TvmIosError

TYPED = (ValueError, TypeError, IndexError, MemoryError, TvmIosError)
HEADROOM = 1 << 30  # bytes that the process may grow by


def registered() -> list[str]:
    """The names of our functions."""
    return sorted(name for name in list_global_func_names() if name.startswith(PREFIX))


def fuzz(seed: int, calls: int, journal: Path) -> set[str]:
    """Call every function so often; what is neither an answer nor a typed error is returned."""
    world = World(seed)
    complaints = set()
    with journal.open("w") as file:
        for name in registered():
            function = tvm_ffi.get_global_func(name)
            for _ in range(calls):
                arguments = draw(world, name)
                print(name, *map(shown, arguments), sep=" | ", file=file, flush=True)
                try:
                    function(*arguments)
                except Exception as error:
                    if not is_sentence(error):
                        complaints.add(f"{name}: {type(error).__name__}: {error}")
    return complaints


def shown(argument: object) -> str:
    """On one line."""
    return repr(argument)[:500].replace("\n", " ")


def is_sentence(error: Exception) -> bool:
    """Whether it is of a type that says what was wrong, and says so without C++'s conditions."""
    if not isinstance(error, TYPED):
        return False
    message = str(error)
    return bool(message) and "Check failed" not in message and "Traceback" not in message


def sanitized() -> bool:
    """Whether AddressSanitizer, which reserves all addresses, watches this process."""
    return "libasan" in os.environ.get("LD_PRELOAD", "")


def used_bytes() -> int:
    """Addresses that this process has taken."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    return pages * resource.getpagesize()


def main() -> None:
    seed, calls, journal = sys.argv[1:]
    if not sanitized():
        limit = used_bytes() + 4 * HEADROOM
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    complaints = fuzz(int(seed), int(calls), Path(journal))
    grown = 1024 * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
    assert grown < HEADROOM, f"the process grew by {grown} bytes"
    assert not complaints, "\n".join(sorted(complaints))
    print("done")


if __name__ == "__main__":
    main()
