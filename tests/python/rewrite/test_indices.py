# SPDX-License-Identifier: Apache-2.0
"""Indices from outside: an error that names one out of bounds, the answers of ONNX Runtime else."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
import tvm
from onnx import TensorProto, helper, numpy_helper
from tvm import relax

import tvm_ios
import tvm_ios_runtime
from support.networks import compile_plain, relax_module, run_vm
from tvm_ios import ModelError
from tvm_ios.cli.main import main
from tvm_ios.rewrite.indices import safe_indices

RNG = np.random.default_rng(5)
DATA = RNG.standard_normal((4, 6, 5)).astype("float32")
HUGE = (2**40, -(2**62))

# An operator, its attributes, the shape of its indices, and of its updates where it has some; the
# length of the axis, of the first one where indices are coordinates.
OPERATORS: Sequence[tuple[str, Mapping[str, Any], tuple[int, ...], tuple[int, ...], int]] = [
    ("Gather", {"axis": 0}, (3,), (), 4),
    ("Gather", {"axis": -1}, (2, 3), (), 5),
    ("Gather", {"axis": 1}, (), (), 6),
    ("GatherElements", {"axis": 1}, (4, 3, 5), (), 6),
    ("GatherND", {}, (3, 2), (), 4),
    ("GatherND", {"batch_dims": 1}, (4, 2, 1), (), 6),
    ("ScatterElements", {"axis": 2}, (2, 3, 4), (2, 3, 4), 5),
    ("ScatterElements", {"axis": 2}, (4, 6, 4), (4, 6, 4), 5),
    ("ScatterND", {}, (3, 2), (3, 5), 4),
]
NAMES = [f"{name}-{'x'.join(map(str, indices))}" for name, _, indices, _, _ in OPERATORS]


def _model(
    operator: str,
    attributes: Mapping[str, Any],
    indices: Sequence[int],
    updates: Sequence[int],
    dtype: int = TensorProto.INT64,
) -> onnx.ModelProto:
    """The operator between two others, on an input of floats and one of indices."""
    inputs = [
        helper.make_tensor_value_info("x", TensorProto.FLOAT, DATA.shape),
        helper.make_tensor_value_info("ids", dtype, indices),
    ]
    weights = []
    if updates:
        # Not the same twice, as results would depend on the order.
        values = np.arange(np.prod(updates), dtype="float32").reshape(updates)
        weights = [numpy_helper.from_array(values, "updates")]
    names = ["relu", "ids", *(["updates"] if updates else [])]
    nodes = [
        helper.make_node("Relu", ["x"], ["relu"]),
        helper.make_node(operator, names, ["taken"], **attributes),
        helper.make_node("Sigmoid", ["taken"], ["y"]),
    ]
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)]
    graph = helper.make_graph(nodes, "indices", inputs, outputs, weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return onnx.shape_inference.infer_shapes(model)


def _compile(model: onnx.ModelProto, folder: Path, threads: int = 1) -> tvm_ios.CompiledModel:
    onnx.save(model, folder / "model.onnx")
    return tvm_ios.compile(folder / "model.onnx", search=False, threads=threads)


@pytest.fixture(scope="module", params=range(len(OPERATORS)), ids=NAMES)
def known(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[int, onnx.ModelProto, tvm_ios.CompiledModel]:
    """A case by its number, its model, and that compiled."""
    operator, attributes, shape, updates, _ = OPERATORS[request.param]
    model = _model(operator, attributes, shape, updates)
    return request.param, model, _compile(model, tmp_path_factory.mktemp("indices"), threads=2)


def test_an_index_out_of_bounds_is_an_error_that_names_it(known: Any) -> None:
    number, _, compiled = known
    _, _, shape, _, length = OPERATORS[number]
    for wrong in (length, -length - 1, *HUGE):
        indices = np.zeros(shape, "int64")
        indices[(-1,) * (len(shape) - 1) + (0,) if shape else ()] = wrong
        with pytest.raises(IndexError, match=rf"'ids', must be from .* got {wrong}\."):
            compiled(DATA, indices)
    compiled(DATA, np.zeros(shape, "int64"))  # nothing stays behind


def test_negative_indices_count_from_the_end(known: Any) -> None:
    number, model, compiled = known
    operator, _, shape, _, length = OPERATORS[number]
    session = onnxruntime.InferenceSession(model.SerializeToString())
    count = int(np.prod(shape))
    for first in (-length, -2, 0):
        # Consecutive ones, so that no element is written twice.
        indices = np.asarray(first + np.arange(count).reshape(shape) % 2)
        if operator == "ScatterND":
            indices[:, 1] = np.arange(shape[0])
        if operator == "ScatterElements":
            indices = np.broadcast_to(np.array([-5, 1, -2, 4]), shape).astype("int64")
        (expected,) = session.run(None, {"x": DATA, "ids": indices})
        np.testing.assert_allclose(compiled(DATA, indices), expected, rtol=1e-6)


def test_coordinates_have_a_bound_each(tmp_path: Path) -> None:
    compiled = _compile(_model("GatherND", {}, (3, 2), ()), tmp_path)
    with pytest.raises(IndexError, match="must be from -6 to 5, got 6"):
        compiled(DATA, np.array([[0, 0], [0, 6], [1, 1]]))
    with pytest.raises(IndexError, match="must be from -4 to 3, got 5"):
        compiled(DATA, np.array([[0, 0], [5, 5], [1, 1]]))


@pytest.mark.parametrize("threads", [1, 2])
def test_a_library_needs_nothing_but_tvm_to_check(threads: int, tmp_path: Path) -> None:
    """Neither this package nor its runtime raises the error."""
    compiled = _compile(_model("Gather", {"axis": 0}, (3,), ()), tmp_path, threads)
    compiled.save(tmp_path / "model.so")
    program = f"""
import sys
import numpy as np
import tvm
from tvm import relax

library = tvm.runtime.load_module({str(tmp_path / "model.so")!r})
machine = relax.VirtualMachine(library, tvm.cpu())
data = tvm.runtime.tensor(np.ones({DATA.shape}, "float32"))
try:
    machine["main"](data, tvm.runtime.tensor(np.array([0, -9, 1])))
except IndexError as error:
    print(error)
assert not {"tvm_ios", "tvm_ios_runtime"} & set(sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout == "The indices of take, 'ids', must be from -4 to 3, got -9.\n", done.stderr


def test_the_runtime_raises_it_too(tmp_path: Path) -> None:
    _compile(_model("Gather", {"axis": 0}, (3,), ()), tmp_path).save(tmp_path / "model.so")
    model = tvm_ios_runtime.load(tmp_path / "model.so")
    with pytest.raises(IndexError, match="got 4"):
        model(DATA, np.array([0, 4, 1]))
    (expected,) = model(DATA, np.array([0, 3, -4]))
    np.testing.assert_allclose(expected[0], 1 / (1 + np.exp(-np.maximum(DATA[0], 0))), rtol=1e-6)


def test_several_checks_in_one_launch(tmp_path: Path) -> None:
    """The runtime calls the driver itself, which raises the error of the first wrong index."""
    ids = relax.TensorType((2, 3), "int64")

    def body(emit: Any, x: relax.Expr, i: relax.Expr) -> relax.Expr:
        rows = emit(relax.op.split(i, 2, axis=0))
        taken = [
            emit(relax.op.take(x, emit(relax.TupleGetItem(rows, n)), axis=n)) for n in range(2)
        ]
        sums = [emit(relax.op.sum(part, keepdims=True)) for part in taken]
        return emit(relax.op.add(*sums))

    mod = relax_module(body, DATA.shape, ids)
    tvm_ios.compile(mod, search=False, threads=2).save(tmp_path / "model.so")
    model = tvm_ios_runtime.load(tmp_path / "model.so")
    assert "direct" in model.metadata
    indices = np.array([[0, 3, 1], [5, 0, 2]])
    expected = DATA[indices[0]].sum() + DATA[:, indices[1]].sum()
    for row, column, error in ((4, 5, "to 3, got 4"), (3, 6, "to 5, got 6"), (4, 7, "to 3, got 4")):
        np.testing.assert_allclose(model(DATA, indices)[0].item(), expected, rtol=1e-5)
        wrong = indices.copy()
        wrong[:, 1] = row, column
        with pytest.raises(IndexError, match=error):
            model(DATA, wrong)


def test_a_narrow_type_is_checked(tmp_path: Path) -> None:
    compiled = _compile(_model("Gather", {"axis": 0}, (3,), (), TensorProto.INT32), tmp_path)
    with pytest.raises(IndexError, match=f"got {-(2**31)}"):
        compiled(DATA, np.array([0, -(2**31), 1], "int32"))


def test_what_a_network_computes_is_checked() -> None:
    ids = relax.TensorType((3,), "int64")

    def body(emit: Any, x: relax.Expr, i: relax.Expr) -> relax.Expr:
        doubled = emit(relax.op.add(i, i))
        return emit(relax.op.take(x, doubled, axis=0))

    compiled = tvm_ios.compile(relax_module(body, DATA.shape, ids), search=False, threads=1)
    np.testing.assert_array_equal(compiled(DATA, np.array([0, 1, 1])), DATA[[0, 2, 2]])
    with pytest.raises(IndexError, match=r"must be from 0 to 3, got 4"):
        compiled(DATA, np.array([0, 2, 1]))
    with pytest.raises(IndexError, match=r"must be from 0 to 3, got -2"):
        compiled(DATA, np.array([0, -1, 1]))


def test_a_mode_that_tells_what_is_out_of_bounds_is_kept() -> None:
    ids = relax.TensorType((4,), "int64")

    def body(emit: Any, x: relax.Expr, i: relax.Expr) -> relax.Expr:
        return emit(relax.op.take(x, i, axis=0, mode="nan"))

    compiled = tvm_ios.compile(relax_module(body, DATA.shape, ids), search=False, threads=1)
    taken = compiled(DATA, np.array([0, 4, -9, 3]))
    np.testing.assert_array_equal(taken[[0, 3]], DATA[[0, 3]])
    assert np.isnan(taken[[1, 2]]).all()


def test_a_wrong_constant_is_refused() -> None:
    wrong = relax.const(np.array([0, 9, 1]), "int64")
    table = relax.const(DATA)
    body = relax_module(lambda emit, x: emit(relax.op.add(x, relax.op.take(table, wrong, 0))), [1])
    with pytest.raises(ModelError, match=r"a constant, must be from 0 to 3, got 9"):
        tvm_ios.compile(body, search=False, threads=1)


def test_where_nothing_can_be_raised_the_nearest_is_taken() -> None:
    ids = relax.TensorType((4,), "int64")

    def body(emit: Any, x: relax.Expr, i: relax.Expr) -> relax.Expr:
        columns = emit(relax.op.broadcast_to(relax.op.reshape(i, (4, 1, 1)), (4, 6, 5)))
        return emit(relax.Tuple([relax.op.take(x, i, 0), relax.op.gather_elements(x, columns, 0)]))

    mod = tvm.transform.Sequential(
        [relax.transform.Normalize(), safe_indices("main", checked=False)]
    )(relax_module(body, DATA.shape, ids))
    taken, gathered = run_vm(compile_plain(mod), [DATA, np.array([2, -(2**40), 2**40, 1])])
    np.testing.assert_array_equal(taken, DATA[[2, 0, 3, 1]])
    np.testing.assert_array_equal(gathered, DATA[[2, 0, 3, 1]])


def test_a_table_of_one_row(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The network is timed with indices that are there, whatever was drawn for other networks."""
    model = _model("Gather", {"axis": 0}, (3,), ())
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_value = 1
    onnx.save(model, tmp_path / "model.onnx")
    assert main(["bench", str(tmp_path / "model.onnx"), "--threads", "1", "--no-database"]) == 0


def test_the_command_line_names_the_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    library, inputs = str(tmp_path / "model.so"), str(tmp_path / "inputs.npz")
    _compile(_model("Gather", {"axis": 0}, (3,), ()), tmp_path).save(library)
    np.savez(inputs, x=DATA, ids=np.array([0, 4, 1]))
    assert main(["run", library, "-i", inputs]) == 4
    message = capsys.readouterr().err
    assert message.endswith(f"{inputs}: The indices of take, 'ids', must be from -4 to 3, got 4.\n")


def test_tvm_warns_of_nothing(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    _compile(_model("Gather", {"axis": 0}, (3,), ()), tmp_path)
    assert "Fast mode" not in capfd.readouterr().err
