# SPDX-License-Identifier: Apache-2.0
"""``tvm_ios_runtime``: a compiled library with TVM's runtime alone."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from tvm import relax

import tvm_ios_runtime
from support.cli import SHAPE, Compiled, relative_error
from support.networks import NATIVE, few_stages, relax_module
from tvm_ios.backend.registry import kind_of
from tvm_ios.compiler import artifact
from tvm_ios.lowering.export import export
from tvm_ios.transform import InterOperatorSchedule

# Neither this package nor TVM's Python package nor torch may be imported in it.
ALONE = """
import json, sys
class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name in ("tvm.base", "torch"):
            raise ImportError(f"{name} is blocked")
sys.meta_path.insert(0, Blocker())
import numpy as np, tvm_ios_runtime
with np.load(sys.argv[2]) as file:
    inputs = dict(file)
def resident():
    return {k: int(v.split()[0]) << 10 for k, v in (l.split(":") for l in open("/proc/self/status"))
            if k in ("VmHWM", "RssAnon")}
before = resident()
model = tvm_ios_runtime.load(sys.argv[1])
for _ in range(3):
    outputs = model.run(inputs)
after = resident()
np.savez(sys.argv[3], **outputs)
assert "tvm_ios" not in sys.modules
print(json.dumps({"grown": {k: after[k] - before[k] for k in after}}))
"""


def run_alone(library: Path, inputs: Path, outputs: Path) -> dict[str, dict[str, int]]:
    command = [sys.executable, "-c", ALONE, library, inputs, outputs]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_library_runs_without_tvms_compiler(compiled: Compiled, tmp_path: Path) -> None:
    run_alone(compiled / "model.so", compiled / "in.npz", tmp_path / "out.npz")
    with np.load(tmp_path / "out.npz") as outputs:
        assert relative_error(outputs["output_0"], compiled.expected) < 1e-3


def test_a_library_says_what_it_takes(compiled: Compiled) -> None:
    model = tvm_ios_runtime.load(compiled / "model.so")
    assert [str(info) for info in model.inputs] == [f"image float32{list(SHAPE)}"]
    assert [str(info) for info in model.outputs] == ["output_0 float32[1, 48]"]
    assert model.metadata["workers"] == 2


def test_inputs_of_any_layout_give_the_same(compiled: Compiled) -> None:
    model = tvm_ios_runtime.load(compiled / "model.so")
    with np.load(compiled / "in.npz") as file:
        image = file["image"]
    aligned = tvm_ios_runtime.empty(SHAPE, "float32")
    aligned[...] = image
    assert aligned.ctypes.data % 64 == 0
    odd = np.empty(image.size + 1, "float32")[1:].reshape(SHAPE)
    odd[...] = image
    constant = aligned.copy()
    constant.flags.writeable = False
    layouts = [
        image,
        aligned,
        odd,
        constant,
        np.asfortranarray(image),
        image[:, :, ::-1][:, :, ::-1],
    ]
    results = [model(array)[0] for array in layouts]
    assert relative_error(results[0], compiled.expected) < 1e-3
    for result in results:
        np.testing.assert_array_equal(result, results[0])
    other = model(image + 1)[0]
    assert not np.array_equal(other, results[0]), "a result is not written over by the next run"


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ([], "takes image float32"),
        ([np.ones(SHAPE, "float64")], "got float64"),
        ([np.ones((1, 3, 24), "float32")], r"got float32\[1, 3, 24\]"),
    ],
)
def test_wrong_inputs_are_named(compiled: Compiled, arrays, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        tvm_ios_runtime.load(compiled / "model.so")(*arrays)


def test_wrong_names_are_named(compiled: Compiled) -> None:
    with pytest.raises(ValueError, match=r"takes image .*; got picture"):
        tvm_ios_runtime.load(compiled / "model.so").run({"picture": np.ones(SHAPE, "float32")})


def test_an_array_without_a_name_is_refused(compiled: Compiled) -> None:
    with pytest.raises(TypeError, match="takes arrays by name"):
        tvm_ios_runtime.load(compiled / "model.so").run(np.ones(SHAPE, "float32"))


def test_other_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(tvm_ios_runtime.LibraryError, match="There is no compiled model"):
        tvm_ios_runtime.load(tmp_path / "none.so")
    (tmp_path / "text.so").write_text("text")
    with pytest.raises(tvm_ios_runtime.LibraryError, match="compile it again"):
        tvm_ios_runtime.load(tmp_path / "text.so")


def test_weights_are_held_once(tmp_path: Path) -> None:
    """Mapped from the library: none of them is memory of the process's own."""
    weights = np.random.default_rng(0).standard_normal((2048, 4096)).astype("float32")  # 32 MiB
    mod = relax_module(lambda emit, x: emit(relax.op.matmul(x, relax.const(weights))), (1, 2048))
    scheduling = InterOperatorSchedule(NATIVE, cost_model=few_stages)
    scheduled = scheduling(mod)
    executable = artifact.build(scheduled, scheduling.schedule, kind_of(NATIVE), NATIVE)
    export(executable, tmp_path / "m.so")
    x = np.random.default_rng(1).standard_normal((1, 2048)).astype("float32")
    np.savez(tmp_path / "in.npz", x0=x)
    grown = run_alone(tmp_path / "m.so", tmp_path / "in.npz", tmp_path / "out.npz")["grown"]
    assert grown["RssAnon"] < weights.nbytes / 4
    assert grown["VmHWM"] < 1.3 * weights.nbytes
    with np.load(tmp_path / "out.npz") as outputs:
        assert relative_error(outputs["output_0"], x @ weights) < 1e-5
