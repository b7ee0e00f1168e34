# SPDX-License-Identifier: Apache-2.0
"""Which CUDA headers a kernel can be compiled with: those of packages, or those of a toolkit.

A lent machine may have several, of which some are incomplete.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from gpu_phases.messages import Channel

_TOOLKIT = "CUDA_PATH"

_COMPILE = """
import sys
from tvm import relax
from tvm_ios.backend.cuda.target import resolve_cuda
from tvm_ios.compiler.scheduler import Scheduler
from tvm_ios.measure.transport.locations import LocalRunner

device_id = int(sys.argv[1])
builder, x = relax.BlockBuilder(), relax.Var("x", relax.TensorType((1, 64), "float32"))
with builder.function("main", [x]):
    with builder.dataflow():
        y = builder.emit_output(builder.emit(relax.op.nn.relu(x)))
    builder.emit_func_output(y)
target, runner = resolve_cuda("cuda", device_id), LocalRunner(device_id)
scheduler = Scheduler.prepare(builder.get(), target, runner=runner)
scheduler.compile({"main": scheduler.unsearched()})
"""


def main() -> None:
    """Say which value of ``CUDA_PATH`` works, None for none, and what became of others."""
    channel = Channel()
    tried: dict[str, str] = {}
    command = [sys.executable, "-c", _COMPILE, *sys.argv[1:]]
    for place in dict.fromkeys(_places()):
        environment = os.environ if place is None else {**os.environ, _TOOLKIT: place}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        if done.returncode == 0:
            channel.say({"cuda_path": place, "tried": tried})
            return
        tried[str(place)] = done.stderr.strip().rpartition("\n")[2]
    channel.say({"tried": tried, "failure": "; ".join(tried.values())})


def _places() -> Iterator[str | None]:
    """What the user has set or the package finds, then toolkits with the headers that NVRTC needs.

    ``nvcc`` may be a script that names the real one.
    """
    yield None
    found = shutil.which("nvcc")
    names = [] if found is None else [os.path.realpath(found)]
    if found is not None and Path(found).stat().st_size < 1 << 16:
        names += re.findall(r"/\S*/bin/nvcc", Path(found).read_text(errors="replace"))
    for folder in [*(Path(name).parents[1] for name in names), Path("/usr/local/cuda")]:
        if any(folder.glob("targets/*/include/cccl")):
            yield str(folder)


if __name__ == "__main__":
    main()
