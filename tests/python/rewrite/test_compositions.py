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

MOVES = ("expand_dims", "permute_dims", "squeeze")

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
    "both": 0.08943,
    "root2": 1.41421354,
    "root_half": 0.707106769,
    "root_2_pi": 0.797884583,
    "root": -0.5,
    "squared": 2.0,
    "two": 2.0,
}

SHAPES = {f"groups{n}": [0, n, -1] for n in (1, 2, 3)}
SHAPES |= {"images": [1, 2, -1], "planes": [2, 3, 2, 5, 7], "whole": list(SHAPE)}
NAMED = {name: np.float32(value) for name, value in NUMBERS.items()} | {
    name: np.array(value) for name, value in SHAPES.items()
}
"""The constants that the compositions name."""

ERF = "d = Div(x, root2) e = Erf(d) t = Add(e, one) "
CUBES = {"power": "c = Pow(x, cubed) ", "products": "q = Mul(x, x) c = Mul(x, q) "}
TANH = "k = Mul(cubic, c) s = Add(x, k) a = Mul(root_2_pi, s) e = Tanh(a) t = Add(one, e) "

HALF = "j = Mul(half, x) y = Mul(j, t)"
ANY_GELU = {
    "added": "d = Mul(x, root_half) e = Erf(d) a = Mul(x, e) b = Add(a, x) y = Mul(b, half)",
    "halved": "d = Div(x, root2) e = Erf(d) h = Mul(e, half) t = Add(half, h) y = Mul(t, x)",
    "subtracted": "d = Mul(x, root_half) n = Neg(d) e = Erf(n) t = Sub(one, e) " + HALF,
    "twice": "d = Div(x, root2) e = Erf(d) t = Add(e, one) b = Mul(x, t) y = Div(b, squared)",
}
TANHED = " a = Mul(u, root_2_pi) e = Tanh(a) t = Add(one, e) " + HALF
ANY_TANH_GELU = {
    "factor first": "q = Mul(x, cubic) c = Mul(q, x) k = Mul(c, x) u = Add(x, k)",
    "factored": "q = Mul(x, cubic) c = Mul(q, x) k = Add(c, one) u = Mul(x, k)",
    "a square by one half": "q = Mul(x, x) c = Mul(q, both) k = Add(two, c) s = Mul(k, x) "
    "u = Mul(s, half)",
    "a sum of fractions": "h = Mul(x, half) c = Pow(x, cubed) k = Mul(c, cubic) s = Add(h, k) "
    "u = Add(s, h)",
}

STANDARDISED = "m = ReduceMean<axes = {axes}>(x) d = Sub(x, m) {square} "
STANDARDISED += "v = ReduceMean<axes = {axes}>(q) w = Add(v, epsilon) s = Sqrt(w) z = Div(d, s) "
POWER, PRODUCT, AGAIN = "q = Pow(d, squared)", "q = Mul(d, d)", "n = Sub(x, m) q = Mul(n, n)"
AFFINE = "a = Mul(z, g) y = Add(b, a)"


def standardised(axes: str, square: str = POWER) -> str:
    return STANDARDISED.format(axes=axes, square=square)


CENTRED = "m = ReduceMean<axes = [-1]>(x) d = Sub(x, m) "
VARIED = "q = Mul(d, d) v = ReduceMean<axes = [-1]>(q) w = Add(v, epsilon) "
INVERSE = "s = Sqrt(w) r = Reciprocal(s) "
SUMS = "t = ReduceSum(x, last) m = {0} d = Sub(x, m) q = Mul(d, d) u = ReduceSum(q, last) v = {1} "
REST = "w = Add(v, epsilon) s = Sqrt(w) z = Div(d, s) " + AFFINE
OF_AXES = {"last": np.array([-1]), "third": np.array([2]), "others": np.array([1, 2])}
OF_ROWS = {"last": np.array([-1]), "count": np.float32(21), "share": np.float32(1 / 21)}
ANY_LAYER_NORM = {
    "reciprocal": CENTRED + VARIED + INVERSE + "z = Mul(d, r) " + AFFINE,
    "an inverse": CENTRED + VARIED + "s = Sqrt(w) r = Div(one, s) z = Mul(r, d) " + AFFINE,
    "a root as a power": CENTRED + VARIED + "r = Pow(w, root) z = Mul(d, r) " + AFFINE,
    "sums by a share": SUMS.format("Mul(t, share)", "Mul(u, share)") + REST,
    "sums by a count": SUMS.format("Div(t, count)", "Div(u, count)") + REST,
    "scaled before": CENTRED + VARIED + "s = Sqrt(w) e = Mul(g, d) z = Div(e, s) y = Add(z, b)",
    "batch's form": CENTRED
    + VARIED
    + INVERSE
    + "k = Mul(r, g) a = Mul(x, k) o = Mul(m, k) c = Sub(b, o) y = Add(a, c)",
    "batch's form of a quotient": CENTRED
    + VARIED
    + "s = Sqrt(w) k = Div(g, s) a = Mul(x, k) o = Mul(m, k) c = Sub(b, o) y = Add(c, a)",
    "less the mean": CENTRED
    + VARIED
    + INVERSE
    + "k = Mul(r, g) n = Neg(m) a = Mul(x, k) o = Mul(n, k) c = Add(b, o) y = Add(c, a)",
    "no factors, batch's form": CENTRED
    + VARIED
    + INVERSE
    + "a = Mul(x, r) o = Mul(m, r) y = Sub(a, o)",
    "squares of the other sign": CENTRED.replace("Sub(x, m)", "Sub(m, x)")
    + VARIED
    + "c = Sub(x, m) s = Sqrt(w) z = Div(c, s) "
    + AFFINE,
    "means of squares": "m = ReduceMean<axes = [-1]>(x) q = Mul(x, x) o = Mul(m, m) "
    "e = ReduceMean<axes = [-1]>(q) v = Sub(e, o) d = Sub(x, m) " + REST,
    "means of squares, not negative": "m = ReduceMean<axes = [-1]>(x) q = Pow(x, squared) "
    "o = Mul(m, m) e = ReduceMean<axes = [-1]>(q) n = Sub(e, o) v = Relu(n) d = Sub(x, m) " + REST,
    "axes that are restored": "l = ReduceMean<axes = [-1], keepdims = 0>(x) m = Unsqueeze(l, last) "
    "d = Sub(x, m) q = Mul(d, d) k = ReduceMean<axes = [-1], keepdims = 0>(q) "
    "v = Unsqueeze(k, last) " + REST,
}


LARGEST = "l = ReduceMax<axes = [2]>(x) d = Sub(x, l) e = Exp(d) s = ReduceSum(e, third) "
ANY_SOFTMAX = {
    "a quotient": LARGEST + "y = Div(e, s)",
    "an inverse": LARGEST + "r = Reciprocal(s) y = Mul(r, e)",
    "the last axis": LARGEST.replace("= [2]", "= [-1]").replace("third", "last") + "y = Div(e, s)",
}


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
    **{
        f"softmax, {name}": Composition(nodes, "nn.softmax", constants=OF_AXES)
        for name, nodes in ANY_SOFTMAX.items()
    },
    **{f"gelu, {name}": Composition(nodes, "nn.gelu") for name, nodes in ANY_GELU.items()},
    **{
        f"tanh gelu, {name}": Composition(nodes + TANHED, "nn.gelu_tanh")
        for name, nodes in ANY_TANH_GELU.items()
    },
    **{
        f"layer, {name}": Composition(
            nodes, "nn.layer_norm", (3, 5, 21), factors((21,), (21,)) | OF_ROWS
        )
        for name, nodes in ANY_LAYER_NORM.items()
    },
    **{
        f"instance, {name}": Composition(
            ANY_LAYER_NORM[name].replace("[-1]", "[2, 3]"),
            "nn.instance_norm",
            constants=factors((6, 1, 1), (6, 1, 1)),
        )
        for name in ("reciprocal", "batch's form", "a root as a power", "scaled before")
    },
    "channels between permutations": Composition(
        "p = Transpose<perm = [0, 2, 3, 1]>(x) "
        + ANY_LAYER_NORM["batch's form"].replace("(x", "(p").replace(" y =", " i =")
        + " y = Transpose<perm = [0, 3, 1, 2]>(i)",
        "nn.layer_norm",
        constants=factors((6,), (6,)),
    ),
    **{
        f"group, by hand, {name}": Composition(
            f"i = Reshape(x, {name}) "
            + standardised(axes).replace("(x", "(i").replace("z =", "n =")
            + "z = Reshape(n, whole) "
            + AFFINE,
            "nn.group_norm",
            constants=factors((6, 1, 1), (6, 1, 1)),
        )
        for name, axes in {"groups3": "[2]", "planes": "[2, 3, 4]"}.items()
    },
    "group, by hand, factors inside": Composition(
        "i = Reshape(x, planes) "
        + ANY_LAYER_NORM["batch's form"]
        .replace("[-1]", "[2, 3, 4]")
        .replace("(x", "(i")
        .replace(" y =", " l =")
        + " y = Reshape(l, whole)",
        "nn.group_norm",
        constants=factors((3, 2, 1, 1), (3, 2, 1, 1)),
    ),
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
    "exponentials of all numbers": Composition(
        "e = Exp(x) s = ReduceSum(e, third) y = Div(e, s)", constants=OF_AXES
    ),
    "sums of another axis": Composition(
        ANY_SOFTMAX["a quotient"].replace("third", "last"), constants=OF_AXES
    ),
    "sums of two axes": Composition(
        ANY_SOFTMAX["a quotient"].replace("third", "others").replace("= [2]", "= [1, 2]"),
        constants=OF_AXES,
    ),
    "a sum of other numbers": Composition(
        ANY_SOFTMAX["a quotient"].replace("ReduceSum(e", "ReduceSum(l"), constants=OF_AXES
    ),
    "the deviation and a small number": Composition(
        CENTRED + "q = Mul(d, d) v = ReduceMean<axes = [-1]>(q) r = Sqrt(v) s = Add(r, epsilon) "
        "z = Div(d, s) " + AFFINE,
        "",
        (3, 5, 21),
        factors((21,), (21,)),
    ),
    "the largest of the variance and a small number": Composition(
        CENTRED + VARIED.replace("Add(v", "Max(v") + INVERSE + "z = Mul(d, r) " + AFFINE,
        "",
        (3, 5, 21),
        factors((21,), (21,)),
    ),
    "sums by another count": Composition(
        ANY_LAYER_NORM["sums by a count"],
        "",
        (3, 5, 22),
        factors((22,), (22,)) | OF_ROWS,
    ),
    "a mean by other factors": Composition(
        ANY_LAYER_NORM["batch's form"].replace("Mul(m, k)", "Mul(m, r)"),
        "",
        (3, 5, 21),
        factors((21,), (21,)),
    ),
    "the root of another variance": Composition(
        ANY_LAYER_NORM["reciprocal"].replace("Mul(d, d)", "Mul(x, d)"),
        "",
        (3, 5, 21),
        factors((21,), (21,)),
    ),
    "gelu of a cube of another tensor": Composition(
        ANY_TANH_GELU["factor first"].replace("c = Mul(q, x)", "c = Mul(q, half)") + TANHED
    ),
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
    """Return the operators that the prepared function calls, but for movements."""
    names: list[str] = []
    func = prepare(load_model(str(path)))["main"]
    relax.analysis.post_order_visit(func, lambda expr: names.append(op_name(expr)))
    return [name for name in names if name not in ("", *MOVES)]


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
    assert not any(word in name for name in names for word in ("gelu", "norm", "softmax"))
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


def test_a_variance_by_means_of_squares_is_more_exact_as_one_operator(tmp_path: Path) -> None:
    """The difference of two large numbers loses the digits that the variance has."""
    composition = RAISED["layer, means of squares"]
    path = saved(composition, tmp_path)
    x = RNG.standard_normal(composition.shape).astype("float32") + np.float32(300)
    wide = x.astype("float64")
    centred = wide - wide.mean(-1, keepdims=True)
    deviation = np.sqrt((centred**2).mean(-1, keepdims=True) + NUMBERS["epsilon"])
    exact = centred / deviation * composition.constants["g"] + composition.constants["b"]
    (theirs,) = onnxruntime.InferenceSession(path).run(None, {"x": x})
    ours = tvm_ios.compile(str(path), search=False)(x)
    assert np.abs(ours - exact).max() < 1e-3 < np.abs(theirs - exact).max()
