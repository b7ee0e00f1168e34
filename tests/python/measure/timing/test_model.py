# SPDX-License-Identifier: Apache-2.0
"""What whole models are timed on, and what their samples become."""

from __future__ import annotations

import numpy as np
import pytest
from tvm import relax

from tvm_ios.measure.timing.models import Timing, random_inputs, rounds


def function(*types: relax.Type) -> relax.Function:
    parameters = [relax.Var(f"p{i}", ty) for i, ty in enumerate(types)]
    return relax.Function(parameters, relax.Tuple([]), relax.TupleType([]))


IMAGE, INDICES = relax.TensorType((2, 3, 50), "float32"), relax.TensorType((400,), "int64")


def test_inputs_have_the_types_of_the_parameters() -> None:
    image, (indices, half) = random_inputs(
        function(IMAGE, relax.TupleType([INDICES, relax.TensorType((4,), "float16")])), 1, 5
    )
    assert (image.shape, image.dtype) == ((2, 3, 50), "float32")
    assert abs(image.numpy().mean()) < 0.2
    assert image.numpy().std() == pytest.approx(1.0, abs=0.2)
    assert set(indices.numpy().tolist()) == set(range(5))
    assert (half.shape, half.dtype) == ((4,), "float16")


def test_inputs_follow_from_the_seed() -> None:
    one, same, other = (random_inputs(function(IMAGE), seed)[0].numpy() for seed in (1, 1, 2))
    assert np.array_equal(one, same)
    assert not np.array_equal(one, other)


def test_integers_are_few_unless_said_otherwise() -> None:
    (indices,) = random_inputs(function(INDICES), 0)
    assert set(indices.numpy().tolist()) == {0, 1}


def test_rounds_take_models_in_turn() -> None:
    assert list(rounds(["a", "b"])) == ["a", "b"] * 11


def test_samples_as_they_are_reported() -> None:
    timing = Timing([1e-3, 2e-3, 3e-3], [5e-3], [1000, None])
    assert timing.seconds == 2e-3
    assert timing.to_dict() == {
        "back_to_back_ms": {"median": 2.0, "p10": 1.2, "p90": 2.8, "samples": [1.0, 2.0, 3.0]},
        "latency_ms": {"median": 5.0, "p10": 5.0, "p90": 5.0, "samples": [5.0]},
        "sm_mhz": [1000, None],
    }
