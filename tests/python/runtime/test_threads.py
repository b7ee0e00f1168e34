# SPDX-License-Identifier: Apache-2.0
"""Threads as guests: on the cores that the process was given, not on others' at once, asleep."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from tvm import relax

import tvm_ios
import tvm_ios_runtime
from support.database import branches
from support.networks import relax_module

CORES = sorted(os.sched_getaffinity(0))[:2]
# Each case takes a process. That of the first core, which nobody has to choose, is a slow test.
EACH_CORE = [pytest.param(n, marks=() if n == CORES[-1] else pytest.mark.slow) for n in CORES]

# Each begins on one core, and ends by printing where its threads may run: all of them.
BEGIN = "import os\nos.sched_setaffinity(0, {%d})\n"
END = """
cores = [os.sched_getaffinity(int(thread)) for thread in os.listdir("/proc/self/task")]
print(len(cores) >= 2, sorted(set.union(*cores)))
"""
MEASURE = """
from tvm_ios.target import available_cores
from tvm_ios.support.threads import set_num_threads
assert available_cores() == 1
assert set_num_threads(2)
assert available_cores() == 1
"""
RUN = """
import numpy as np
import tvm_ios_runtime
model = tvm_ios_runtime.load("model.so")
model(*(np.zeros(value.shape, value.dtype) for value in model.inputs))
"""
RUN_BY_TVM = """
import sys
import numpy as np
import tvm
machine = tvm.relax.VirtualMachine(tvm.runtime.load_module("model.so"), tvm.cpu())
machine["main"](tvm.runtime.tensor(np.ones(%s, "float32")))
assert not {"tvm_ios", "tvm_ios_runtime"} & set(sys.modules)
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A network for two threads."""
    path = tmp_path_factory.mktemp("library") / "model.so"
    tvm_ios.compile(branches(), threads=2, search=False).save(path)
    return path


def threads_of(code: str, core: int, directory: Path, bind: str | None = None) -> str:
    """What a process that was given one core prints, with ``TVM_BIND_THREADS`` or without it."""
    environment = {k: v for k, v in os.environ.items() if k != "TVM_BIND_THREADS"}
    if bind is not None:
        environment["TVM_BIND_THREADS"] = bind
    return subprocess.run(
        [sys.executable, "-c", BEGIN % core + code + END],
        cwd=directory,
        env=environment,
        check=True,
        capture_output=True,
        text=True,
    ).stdout.strip()


@pytest.mark.parametrize("core", EACH_CORE)
@pytest.mark.parametrize("bind", [None, "1"])
def test_what_is_measured(core: int, bind: str | None, tmp_path: Path) -> None:
    assert threads_of(MEASURE, core, tmp_path, bind) == f"True [{core}]"


@pytest.mark.parametrize("core", EACH_CORE)
def test_a_compiled_network(core: int, library: Path) -> None:
    """On one core nobody helps the caller."""
    assert threads_of(RUN, core, library.parent).endswith(f" [{core}]")


@pytest.mark.skipif(len(CORES) < 2, reason="takes two cores")
def test_helpers_may_run_where_the_caller_may(library: Path) -> None:
    code = f"os.sched_setaffinity(0, {CORES})\n{RUN}"
    assert threads_of(code, CORES[0], library.parent) == f"True {CORES}"


@pytest.mark.parametrize("core", EACH_CORE)
def test_a_compiled_network_with_tvm_alone(core: int, library: Path) -> None:
    (data,) = tvm_ios_runtime.load(library).inputs
    assert threads_of(RUN_BY_TVM % (data.shape,), core, library.parent) == f"True [{core}]"


SET_ONCE = """
import ctypes, sys
import numpy as np
import tvm
libc, names = ctypes.CDLL(None), [b"TVM_BIND_THREADS", b"TVM_THREAD_POOL_SPIN_COUNT"]
libc.getenv.restype = ctypes.c_char_p
def values():
    return [libc.getenv(name) for name in names]
libc.unsetenv(names[0])
libc.setenv(names[1], b"77", 1)
assert values() == [None, b"77"]
machine = tvm.relax.VirtualMachine(tvm.runtime.load_module(sys.argv[1]), tvm.cpu())
loaded = values()
libc.unsetenv(names[0])
machine["main"](tvm.runtime.tensor(np.ones(eval(sys.argv[2]), "float32")))
print(loaded, values())
"""


@pytest.mark.parametrize("body", ["kernels", "operators of TVM alone"])
def test_a_library_sets_the_defaults_when_it_is_loaded_and_not_later(
    body: str, tmp_path: Path
) -> None:
    """Not at each call: another thread may read the environment meanwhile."""
    flipped = relax_module(lambda emit, x: emit(relax.op.flip(x, axis=1)), (1, 8, 13, 11))
    model = tvm_ios.compile(branches() if body == "kernels" else flipped, threads=2, search=False)
    model.save(tmp_path / "model.so")
    (data,) = model.inputs
    command = [sys.executable, "-c", SET_ONCE, str(tmp_path / "model.so"), str(data.shape)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout == "[b'0', b'77'] [None, b'77']\n", done.stderr


def test_the_caller_keeps_its_cores(library: Path) -> None:
    """Only what is started for it goes where workers belong, such as to distinct cores."""
    first, *more = CORES
    if not more:
        pytest.skip("takes two cores")
    code = f"""
os.sched_setaffinity(0, {set(CORES)})
from tvm_ios_runtime import threads
threads.spread_cores = lambda count: frozenset({{{first}}})
from tvm_ios.support.threads import set_num_threads
assert set_num_threads(2)
{RUN}
cores = {{int(t): os.sched_getaffinity(int(t)) for t in os.listdir("/proc/self/task")}}
print(cores.pop(os.getpid()) == {set(CORES)}, {{{first}}} in cores.values())
"""
    assert threads_of(code, first, library.parent).splitlines()[0] == "True True"


def test_workers_sleep_after_a_run(library: Path) -> None:
    """They looked for work for some 70 ms, which is a share of the core of somebody else."""
    after = """
import time
begin = time.process_time()
time.sleep(0.5)
print(time.process_time() - begin)
"""
    used = float(threads_of(RUN + after, CORES[0], library.parent).splitlines()[0])
    assert used < 0.01


def test_a_larger_model_after_a_smaller_one(tmp_path: Path) -> None:
    """They share the helpers, of which there are no more than cores."""
    for threads in (2, 5):
        tvm_ios.compile(branches(), threads=threads, search=False).save(tmp_path / f"{threads}.so")
    code = f"""
os.sched_setaffinity(0, {CORES})
import numpy as np
import tvm_ios_runtime
small, large = (tvm_ios_runtime.load(f"{{n}}.so") for n in (2, 5))
image = np.random.default_rng(0).standard_normal(small.inputs[0].shape).astype("float32")
(expected,) = small(image)
before = len(os.listdir("/proc/self/task"))
for _ in range(3):
    np.testing.assert_allclose(large(image)[0], expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(small(image)[0], expected)
print(len(os.listdir("/proc/self/task")) - before)
"""
    assert threads_of(code, CORES[0], tmp_path).splitlines()[0] == "0"


def test_many_more_workers_than_cores(tmp_path: Path) -> None:
    for threads in (1, 64):
        tvm_ios.compile(branches(), threads=threads, search=False).save(tmp_path / f"{threads}.so")
    one, many = (tvm_ios_runtime.load(tmp_path / f"{n}.so") for n in (1, 64))
    random = np.random.default_rng(0)
    for _ in range(5):
        image = random.standard_normal(one.inputs[0].shape).astype("float32")
        np.testing.assert_allclose(many(image)[0], one(image)[0], rtol=1e-4, atol=1e-5)
