# SPDX-License-Identifier: Apache-2.0
"""The command ``tvm-ios``; checks the environment before it imports anything that may be broken."""

from __future__ import annotations

import gc
import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext

from tvm_ios_env import interrupted, report, requirements
from tvm_ios_env.torchless import torch_hidden

_USER_ERROR = 4
_OF_TORCH = ".pt2"  # files that torch.export.save writes


def main() -> int:
    """Run the command line, or print one sentence about what prevents it."""
    found = requirements.problems()
    if not found:
        try:
            with _loading(sys.argv[1:]), _no_torch_for(sys.argv[1:]), _no_collections():
                from tvm_ios.cli.main import main as run
        except ImportError as error:
            found = [str(error)]
        except KeyboardInterrupt:
            return interrupted.report()
        else:
            return run()
    if sys.argv[1:2] == ["env"]:
        facts = report.collect(found)
        print(json.dumps(facts, indent=1) if "--json" in sys.argv else report.as_text(facts))
        return 0
    print(f"error: {found[0]}", file=sys.stderr)
    return _USER_ERROR


def _loading(arguments: Sequence[str]) -> AbstractContextManager[None]:
    """Tell that TVM is loaded, unless nothing is to be told."""
    quiet = not {"-q", "--quiet"}.isdisjoint(arguments)
    return nullcontext() if quiet else telling("loading TVM")


def _no_torch_for(arguments: Sequence[str]) -> AbstractContextManager[None]:
    """Hide PyTorch, unless the command is ``bench`` or a model is a PyTorch file."""
    needed = arguments[:1] == ["bench"] or any(_OF_TORCH in argument for argument in arguments)
    return nullcontext() if needed else torch_hidden()


@contextmanager
def _no_collections() -> Iterator[None]:
    """Collect no garbage inside the ``with`` block, and never look at what it made.

    Modules make many objects that stay. To look for garbage among them costs a tenth of the time
    that loading takes.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


@contextmanager
def telling(what: str) -> Iterator[None]:
    """Show on a terminal what is being done."""
    if not sys.stderr.isatty():
        yield
        return
    print(what, end="", file=sys.stderr, flush=True)
    try:
        yield
    finally:
        print("\r" + " " * len(what), end="\r", file=sys.stderr, flush=True)
