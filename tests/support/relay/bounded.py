# SPDX-License-Identifier: Apache-2.0
"""Loads Relay files, each in a process of its own with little memory and time.

As a program it takes a folder and the share of the limits, and prints what became of each file in
it as JSON.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
from pathlib import Path

from support.paths import TESTS, with_path
from tvm_ios import relay
from tvm_ios.errors import RelayError
from tvm_ios.relay import budget

SECONDS = 40  # of processor time; what is bounded takes a few
MEMORY = 1 << 30  # beyond what the process has mapped


def load_bounded(files: dict[str, str], folder: Path, share: int = 1) -> dict[str, str]:
    """What becomes of the files' texts: "module", "TypeOfError: sentence", or "signal NUMBER".

    Of the parts and operators that any file may have, only one ``share``-th is granted.
    """
    for name, text in files.items():
        (folder / name).write_text(text)
    command = [sys.executable, "-m", __spec__.name, str(folder), str(share)]
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=with_path(TESTS))
    return json.loads(done.stdout)


def _outcome(path: Path) -> str:
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        _limit()
        os.write(writing, _load(path).encode()[:4000])
        os._exit(0)
    os.close(writing)
    _, status = os.waitpid(child, 0)
    with os.fdopen(reading) as file:
        said = file.read()
    return f"signal {os.WTERMSIG(status)}" if os.WIFSIGNALED(status) else said


def _limit() -> None:
    mapped = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (mapped + MEMORY, mapped + MEMORY))
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
    signal.signal(signal.SIGXCPU, signal.SIG_DFL)


def _load(path: Path) -> str:
    try:
        relay.load(path)
    except RelayError as error:
        return f"{type(error).__name__}: {error}"
    except BaseException as error:
        return f"untyped {type(error).__name__}: {error}"
    return "module"


if __name__ == "__main__":
    budget.PARTS //= int(sys.argv[2])
    budget.OPERATORS //= int(sys.argv[2])
    print(json.dumps({path.name: _outcome(path) for path in sorted(Path(sys.argv[1]).iterdir())}))
