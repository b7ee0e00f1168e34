# SPDX-License-Identifier: Apache-2.0
"""TVM knows the pipeline without an import of ours, and comes to no harm from it."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

NETWORK = """
from tvm import relax

def network():
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((4, 8), "float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            sum = builder.emit(relax.op.add(x, x))
            result = builder.emit_output(relax.op.nn.relu(sum))
        builder.emit_func_output(result)
    return builder.get()

def check(executable):
    x = np.arange(-16, 16, dtype="float32").reshape(4, 8)
    vm = relax.VirtualMachine(executable, tvm.cpu())
    np.testing.assert_array_equal(vm["main"](tvm.runtime.tensor(x)).numpy(), np.maximum(x + x, 0))
"""

SEARCH = 'check(tvm.compile(network(), "llvm", relax_pipeline="tvm_ios"))'


def run(*parts: str, **environment: str) -> None:
    """Run Python in a process of its own."""
    script = "\n".join(["import sys, warnings", "import numpy as np", *parts])
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_tvm_alone_knows_the_pipeline() -> None:
    run("import tvm", NETWORK, SEARCH)


def test_tvm_loads_nothing_of_ours() -> None:
    run(
        "import tvm",
        "ours = {name for name in sys.modules if name.startswith('tvm_ios')}",
        "assert {name.partition('.')[0] for name in ours} == {'tvm_ios_entry', 'tvm_ios_env'}",
        "assert len(ours) == 5, ours",
        "assert 'xgboost' not in sys.modules",
    )


@pytest.mark.slow
def test_switched_off_the_import_tells_tvm() -> None:
    run(
        "import tvm",
        "assert 'tvm_ios' not in tvm.relax.pipeline.PIPELINE_MAP",
        "import tvm_ios",
        NETWORK,
        SEARCH,
        TVM_DEVICE_BACKEND_AUTOLOAD="0",
    )


def test_whichever_is_imported_first() -> None:
    for order in ("import tvm, tvm_ios", "import tvm_ios, tvm"):
        run(
            "warnings.simplefilter('error')",
            order,
            "assert tvm.relax.get_pipeline('tvm_ios').info.name == 'tvm_ios.pipeline'",
        )


def test_the_runtime_alone_is_left_alone() -> None:
    """TVM without its compiler has no Relax."""
    run(
        "from tvm_ios_entry import pipeline",
        "pipeline.register()",
        "assert 'tvm' not in sys.modules",
    )


def test_what_fails_does_not_break_tvm() -> None:
    run(
        "from tvm_ios_entry import pipeline",
        "def fail(): raise RuntimeError('broken')",
        "register, pipeline.register = pipeline.register, fail",
        "with warnings.catch_warnings(record=True) as told:",
        "    warnings.simplefilter('always')",
        "    import tvm",
        "assert 'broken' in ' '.join(str(warning.message) for warning in told)",
        "pipeline.register = register",
        "import tvm_ios",
        "assert tvm.relax.get_pipeline('tvm_ios').info.name == 'tvm_ios.pipeline'",
    )


def test_a_pipeline_that_cannot_be_loaded_says_why() -> None:
    run(
        "import tvm",
        "sys.modules['tvm_ios.transform'] = None",
        "try:",
        "    tvm.relax.get_pipeline('tvm_ios')",
        "except ImportError as error:",
        "    assert 'tvm_ios.transform' in str(error)",
        "else:",
        "    raise AssertionError('it was loaded')",
        NETWORK,
        'check(tvm.compile(network(), "llvm"))',
    )
