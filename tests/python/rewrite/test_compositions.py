# SPDX-License-Identifier: Apache-2.0
"""Compositions of simple operators that exporters write become one operator."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import numpy_helper
from tvm import relax

import tvm_ios
from tvm_ios.frontend.models import load_model
from tvm_ios.relax_ir.expressions import op_name
from tvm_ios.rewrite.prepare import prepare

SHAPE = (2, 6, 5, 7)
"""Of the input, unless a composition says otherwise."""

ONLY_AS_WRITTEN = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
"""ONNX Runtime's own search for compositions takes any power for a square."""

RNG = np.random.default_rng(0)


class Composition(NamedTuple):
    """The text of ONNX nodes that compute ``y`` of ``x``, and what they use."""

    nodes: str
    operator: str = ""
    shape: tuple[int, ...] = SHAPE
    constants: dict[str, np.ndarray] = {}  # noqa: RUF012


def factors(*shapes: tuple[int, ...]) -> dict[str, np.ndarray]:
    """Return random constants ``g``, ``b``, and so on."""
    names = ("g", "b", "g2", "b2")
    return {
        n: RNG.standard_normal(s).astype("float32") for n, s in zip(names, shapes, strict=False)
    }


NUMBERS = {
    "cubed": 3.0,
    "cubic": 0.044715,
    "epsilon": 1e-5,
    "four": 4.0,
    "half": 0.5,
    "more": 0.51,
    "one": 1.0,
    "root2": 1.41421354,
    "root_2_pi": 0.797884583,
    "squared": 2.0,
}

SHAPES = {f"groups{n}": [0, n, -1] for n in (1, 2, 3)}
SHAPES |= {"images": [1, 2, -1], "whole": list(SHAPE)}
NAMED = {name: np.float32(value) for name, value in NUMBERS.items()} | {
    name: np.array(value) for name, value in SHAPES.items()
}
"""The constants that the compositions name."""

ERF = "d = Div(x, root2) e = Erf(d) t = Add(e, one) "
CUBES = {"power": "c = Pow(x, cubed) ", "products": "q = Mul(x, x) c = Mul(x, q) "}
TANH = "k = Mul(cubic, c) s = Add(x, k) a = Mul(root_2_pi, s) e = Tanh(a) t = Add(one, e) "

STANDARDISED = "m = ReduceMean<axes = {axes}>(x) d = Sub(x, m) {square} "
STANDARDISED += "v = ReduceMean<axes = {axes}>(q) w = Add(v, epsilon) s = Sqrt(w) z = Div(d, s) "
POWER, PRODUCT, AGAIN = "q = Pow(d, squared)", "q = Mul(d, d)", "n = Sub(x, m) q = Mul(n, n)"
AFFINE = "a = Mul(z, g) y = Add(b, a)"


def standardised(axes: str, square: str = POWER) -> str:
    return STANDARDISED.format(axes=axes, square=square)


def grouped(groups: int) -> str:
    """An instance normalisation of groups between two reshapes."""
    return (
        f"i = Reshape(x, groups{groups}) "
        "n = InstanceNormalization<epsilon = 0.001>(i, g, b) z = Reshape(n, whole) "
    )


RAISED = {
    "gelu": Composition(ERF + "a = Mul(x, t) y = Mul(a, half)", "nn.gelu"),
    "gelu, half first": Composition(ERF + "a = Mul(half, x) y = Mul(a, t)", "nn.gelu"),
    "gelu, x last": Composition(ERF + "a = Mul(t, half) y = Mul(x, a)", "nn.gelu"),
    **{
        f"tanh gelu, {name}": Composition(
            cube + TANH + "b = Mul(x, t) y = Mul(b, half)", "nn.gelu_tanh"
        )
        for name, cube in CUBES.items()
    },
    "layer": Composition(
        standardised("[-1]") + AFFINE, "nn.layer_norm", (3, 5, 21), factors((21,), (21,))
    ),
    "layer, of products": Composition(
        standardised("[2]", PRODUCT) + AFFINE, "nn.layer_norm", (3, 5, 21), factors((21,), (1, 21))
    ),
    "layer, differences twice": Composition(
        standardised("[2]", AGAIN) + AFFINE, "nn.layer_norm", (3, 5, 21), factors((21,), (21,))
    ),
    "layer, no factors": Composition(
        standardised("[-1]").replace("z =", "y ="), "nn.layer_norm", (3, 5, 21)
    ),
    "layer, scale only": Composition(
        standardised("[-1]") + "y = Mul(g, z)", "nn.layer_norm", (3, 5, 21), factors((21,))
    ),
    "layer, shift only": Composition(
        standardised("[-1]") + "y = Add(g, z)", "nn.layer_norm", (3, 5, 21), factors((21,))
    ),
    "layer, two axes": Composition(
        standardised("[-2, -1]") + AFFINE, "nn.layer_norm", constants=factors((5, 7), (5, 1))
    ),
    "layer, channels": Composition(
        standardised("[1]") + AFFINE, "nn.layer_norm", constants=factors((6, 1, 1), (1, 6, 1, 1))
    ),
    "instance": Composition(
        "y = InstanceNormalization(x, g, b)", "nn.instance_norm", constants=factors((6,), (6,))
    ),
    "instance, one axis": Composition(
        "y = InstanceNormalization(x, g, b)",
        "nn.instance_norm",
        (2, 6, 35),
        factors((6,), (6,)),
    ),
    "instance, by hand": Composition(
        standardised("[2, 3]") + AFFINE, "nn.instance_norm", constants=factors((6, 1, 1), (6, 1, 1))
    ),
    "group": Composition(
        grouped(3).replace("(i, g, b)", "(i, ones, zeros)") + AFFINE,
        "nn.group_norm",
        constants={"ones": np.ones(3, "float32"), "zeros": np.zeros(3, "float32")}
        | factors((6, 1, 1), (6, 1, 1)),
    ),
    "group, factors of groups": Composition(
        grouped(2).replace("z =", "y ="), "nn.group_norm", constants=factors((2,), (2,))
    ),
    "group, both": Composition(
        grouped(2) + "a = Mul(z, g2) y = Add(a, b2)",
        "nn.group_norm",
        constants=factors((2,), (2,), (6, 1, 1), (6, 1, 1)),
    ),
    "group, scale only": Composition(
        grouped(1) + "y = Mul(z, g2)",
        "nn.group_norm",
        constants=factors((1,), (1,), (6, 1, 1)),
    ),
}

STAYING = {
    "gelu of other numbers": Composition(ERF + "a = Mul(x, t) y = Mul(a, more)"),
    "gelu of two tensors": Composition(ERF + "l = Neg(x) a = Mul(l, t) y = Mul(a, half)"),
    "another power": Composition(
        standardised("[-1]").replace("squared", "four") + AFFINE,
        "",
        (3, 5, 21),
        factors((21,), (21,)),
    ),
    "other axes of the variance": Composition(
        standardised("[2]").replace("v = ReduceMean<axes = [2]>", "v = ReduceMean<axes = [1]>")
        + AFFINE,
        "",
        (3, 5, 21),
        factors((21,), (21,)),
    ),
    "means without their axis": Composition(
        standardised("[-1]").replace("ReduceMean<", "ReduceMean<keepdims = 0, ") + AFFINE,
        "",
        (7, 7),
        factors((7,), (7,)),
    ),
    "middle axes": Composition(standardised("[1, 2]") + AFFINE, constants=factors((6, 5, 1), (1,))),
}

OTHER_FACTORS = {
    "of other axes": Composition(
        standardised("[3]") + AFFINE, "nn.layer_norm", constants=factors((6, 1, 7), (7,))
    ),
    "that add axes": Composition(
        standardised("[2, 3]") + AFFINE, "nn.layer_norm", constants=factors((3, 1, 6, 1, 1), (1,))
    ),
}


def saved(composition: Composition, directory: Path, dtype: str = "float") -> Path:
    """Write a model of the composition."""
    sizes = ", ".join(map(str, composition.shape))
    text = f"composed ({dtype}[{sizes}] x) => ({dtype} y) {{ {composition.nodes} }}"
    graph = onnx.parser.parse_graph(text)
    graph.initializer.extend(
        numpy_helper.from_array(np.asarray(value), name)
        for name, value in (NAMED | composition.constants).items()
        if re.search(rf"\b{name}\b", composition.nodes)
    )
    model = onnx.helper.make_model(
        graph, opset_imports=[onnx.helper.make_opsetid("", 13)], ir_version=8
    )
    onnx.save(model, directory / "model.onnx")
    return directory / "model.onnx"


def operators(path: Path) -> list[str]:
    """Return the operators that the prepared function calls, but for permutations."""
    names: list[str] = []
    func = prepare(load_model(str(path)))["main"]
    relax.analysis.post_order_visit(func, lambda expr: names.append(op_name(expr)))
    return [name for name in names if name not in ("", "permute_dims")]


def assert_as_onnx_runtime(path: Path, shape: tuple[int, ...]) -> None:
    x = 2 * RNG.standard_normal(shape).astype("float32") + 0.5
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = ONLY_AS_WRITTEN
    (expected,) = onnxruntime.InferenceSession(path, options).run(None, {"x": x})
    compiled = tvm_ios.compile(str(path), search=False)
    np.testing.assert_allclose(compiled(x), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("composition", RAISED.values(), ids=RAISED)
def test_a_composition_becomes_its_operator(composition: Composition, tmp_path: Path) -> None:
    path = saved(composition, tmp_path)
    assert operators(path) == [composition.operator]
    assert_as_onnx_runtime(path, composition.shape)


@pytest.mark.parametrize("composition", STAYING.values(), ids=STAYING)
def test_what_only_looks_like_a_composition_stays(composition, tmp_path: Path) -> None:
    path = saved(composition, tmp_path)
    names = operators(path)
    assert not any("gelu" in name or "norm" in name for name in names)
    assert_as_onnx_runtime(path, composition.shape)


@pytest.mark.parametrize("name", ["gelu", "layer", "instance, by hand", "group, both"])
def test_compositions_of_float64_stay(name: str, tmp_path: Path) -> None:
    composition = RAISED[name]
    wide = {n: np.asarray(v, "float64") for n, v in (NAMED | composition.constants).items()}
    wide |= {n: value for n, value in NAMED.items() if value.dtype == "int64"}
    path = saved(composition._replace(constants=wide), tmp_path, "double")
    assert not any("gelu" in name or "norm" in name for name in operators(path))


def test_groups_of_another_batch_stay_between_their_reshapes(tmp_path: Path) -> None:
    """Each group is an image."""
    composition = RAISED["group, both"]
    nodes = composition.nodes.replace("groups2", "images")
    path = saved(composition._replace(nodes=nodes), tmp_path)
    assert operators(path) == ["reshape", "nn.instance_norm", "reshape", "multiply", "add"]
    assert_as_onnx_runtime(path, composition.shape)


@pytest.mark.parametrize("composition", OTHER_FACTORS.values(), ids=OTHER_FACTORS)
def test_factors_of_another_shape_stay(composition: Composition, tmp_path: Path) -> None:
    path = saved(composition, tmp_path)
    assert operators(path) == [composition.operator, "multiply", "add"]
    assert_as_onnx_runtime(path, composition.shape)


def test_a_composition_whose_parts_are_results_stays_whole(tmp_path: Path) -> None:
    """The operator is computed beside them."""
    composition = RAISED["layer, scale only"]
    nodes = composition.nodes.replace("y = Mul(g, z)", "o = Mul(g, z) y = Add(o, z)")
    path = saved(composition._replace(nodes=nodes), tmp_path)
    assert "nn.layer_norm" in operators(path)
    assert_as_onnx_runtime(path, composition.shape)


def test_a_copy_of_what_a_composition_reads_may_come_later(tmp_path: Path) -> None:
    composition = RAISED["layer"]
    nodes = composition.nodes.replace("y = Add(b, a)", "o = Add(b, a) c = Mean(x) y = Sub(c, o)")
    assert nodes != composition.nodes
    path = saved(composition._replace(nodes=nodes), tmp_path)
    assert "nn.layer_norm" in operators(path)
    assert_as_onnx_runtime(path, composition.shape)
