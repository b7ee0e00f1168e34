# SPDX-License-Identifier: Apache-2.0
"""Sums of products by labels become matrix products."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from support.exported import Exported

SIZES = dict(zip("abcdefghBFNTHD", (2, 3, 5, 4, 7, 6, 1, 2, 2, 5, 3, 7, 4, 6), strict=True))
PRODUCTS = (
    "ab,bc->ac",
    "ab,bc->ca",
    "bc,ab->ac",
    "abc,cde->abde",
    "abcd,cde->abe",
    "aecd,abcd->acbe",
    "acbe,aecd->abcd",
    "BTNH,BFNH->BNFT",
    "BNFT,BTNH->BFNH",
    "BFNH,NHD->BFD",
    "ab,b->a",
    "b,bc->c",
    "ab,ab->",
    "abc,abc->a",
    "abc,cb->ab",
    "gab,gbc->gac",
    "agb,cgb->agc",
    "cab,bd",
)
OTHERS = (
    "ab->ba",
    "abc->b",
    "abc->",
    "ab,cd->acbd",
    "abc,ade->ab",
    "ab,bc->abc",
    "ab,ab->ba",
    "ab,b->ba",
)
LEFT = ("aa->a", "ab,bc,cd->ad", "...b,bc->...c")


def exported(equation: str) -> Exported:
    labels = equation.split("->")[0].split(",")
    named = [own.replace("...", "ae") for own in labels]
    names = [f"x{place}" for place in range(len(labels))]
    nodes = f'y = Einsum<equation = "{equation}">({", ".join(names)})'
    shapes = [tuple(SIZES[label] for label in own) for own in named]
    return Exported(nodes, dict(zip(names, shapes, strict=True)))


@pytest.mark.parametrize("equation", [*PRODUCTS, *OTHERS])
def test_an_equation_of_two(equation: str, tmp_path: Path) -> None:
    network = exported(equation)
    operators = network.operators(tmp_path)
    assert "einsum" not in operators
    assert operators.count("matmul") == (equation in PRODUCTS)
    network.check(tmp_path)


@pytest.mark.parametrize("equation", LEFT)
def test_what_is_no_product_of_two_stays(equation: str, tmp_path: Path) -> None:
    network = exported(equation)
    assert "einsum" in network.operators(tmp_path)
    network.check(tmp_path)


RNG = np.random.default_rng(0)


def random(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape, "float32") / 3


BATCH, ROWS, HEADS, DEPTH = 2, 7, 3, 4
WIDTH = HEADS * DEPTH


def projected(name: str) -> str:
    product = f'{name}_p = Einsum<equation = "abc,cde->abde">(x, w{name}) '
    return product + f"{name} = Add({name}_p, b{name}) "


KERAS = (
    "".join(map(projected, "qkv"))
    + 'z = Mul(q, factor) s = Einsum<equation = "aecd,abcd->acbe">(k, z) p = Softmax(s) '
    'o = Einsum<equation = "acbe,aecd->abcd">(p, v) y = Einsum<equation = "abcd,cde->abe">(o, last)'
)


def keras(*shape: int | str) -> Exported:
    constants = {f"w{name}": random(WIDTH, HEADS, DEPTH) for name in "qkv"}
    constants |= {f"b{name}": random(HEADS, DEPTH) for name in "qkv"}
    constants |= {"last": random(HEADS, DEPTH, WIDTH), "factor": np.float32(1 / math.sqrt(DEPTH))}
    return Exported(KERAS, {"x": (*shape, WIDTH)}, constants)


def test_an_attention_of_keras_is_one_operator(tmp_path: Path) -> None:
    network = keras(BATCH, ROWS)
    operators = network.operators(tmp_path)
    assert operators.count("nn.attention") == 1
    assert operators.count("matmul") == 4
    network.check(tmp_path)


def test_an_attention_of_open_sizes(tmp_path: Path) -> None:
    sizes = [{"batch": batch, "rows": rows} for batch, rows in ((1, 1), (2, 9), (3, 5))]
    keras("batch", "rows").check(tmp_path, 0, 1e-5, *sizes)
