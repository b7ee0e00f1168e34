# SPDX-License-Identifier: Apache-2.0
"""Preparing folds batch normalisation where that is exact, and changes no result."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
from tvm import relax

from support.networks import (
    UNOPTIMISED,
    add_function,
    assert_close,
    check_scheduled,
    compile_plain,
    constant,
    conv,
    random_arguments,
    relax_module,
    run_vm,
)
from tvm_ios.errors import ModelError
from tvm_ios.rewrite.prepare import prepare

op = relax.op
SHAPE = (2, 5, 6, 7)
CHANNELS = 12


def statistics(channels: int = CHANNELS, seed: int = 3) -> list[relax.Expr]:
    """Constant scale, offset, mean and variance; the variance is positive."""
    random = np.random.default_rng(seed)
    arrays = [random.standard_normal(channels) for _ in range(3)]
    arrays.append(random.uniform(0.5, 2.0, channels))
    return [relax.const(a.astype("float32"), "float32") for a in arrays]


def norm(data: relax.Expr, parameters: list[relax.Expr], **attrs: object) -> relax.Expr:
    return op.nn.batch_norm(data, *parameters, **{"axis": 1, "training": False, **attrs})


def operators(mod: tvm.IRModule, function: str = "main") -> list[str]:
    """The operators of a function, in order."""
    values = [b.value for block in mod[function].body.blocks for b in block.bindings]
    return [
        v.op.name.removeprefix("relax.")
        for v in values
        if isinstance(v, relax.Call) and isinstance(v.op, tvm.ir.Op)
    ]


def check_prepared(mod: tvm.IRModule) -> list[str]:
    """Preparing changes no number; returns the operators that are left."""
    prepared = prepare(mod)
    arguments = random_arguments(mod)
    expected = run_vm(compile_plain(mod, UNOPTIMISED), arguments)
    actual = run_vm(compile_plain(prepared, UNOPTIMISED), arguments)
    for one, other in zip(actual, expected, strict=True):
        assert_close(one, other)
    return operators(prepared)


@pytest.mark.parametrize("scale", [True, False])
@pytest.mark.parametrize("center", [True, False])
def test_batch_norm_is_folded_into_the_convolution(scale: bool, center: bool) -> None:
    def body(emit, x):
        normed = emit(norm(emit(conv(x, CHANNELS)), statistics(), scale=scale, center=center))
        return emit(op.nn.relu(emit(relax.TupleGetItem(normed, 0))))

    mod = relax_module(body, SHAPE)
    assert check_prepared(mod) == ["nn.conv2d", "add", "nn.relu"]
    check_scheduled(mod)


def test_a_bias_before_the_normalisation_is_folded_too() -> None:
    def body(emit, x):
        biased = emit(op.add(emit(conv(x, CHANNELS)), constant(1, CHANNELS, 1, 1)))
        return emit(relax.TupleGetItem(emit(norm(biased, statistics())), 0))

    assert check_prepared(relax_module(body, SHAPE)) == ["nn.conv2d", "add"]


def test_a_chain_of_scales_and_shifts_is_one_addition() -> None:
    def body(emit, x):
        value = emit(conv(x, CHANNELS))
        value = emit(op.multiply(relax.const(2.5, "float32"), value))
        value = emit(op.subtract(value, constant(CHANNELS, 1, 1, seed=4)))
        value = emit(op.divide(value, relax.const(0.3, "float32")))
        return emit(op.add(constant(1, CHANNELS, 1, 1, seed=5), value))

    assert check_prepared(relax_module(body, SHAPE)) == ["nn.conv2d", "add"]


def test_a_constant_minus_the_convolution_is_not_a_shift() -> None:
    def body(emit, x):
        value = emit(conv(x, CHANNELS))
        value = emit(op.subtract(constant(1, CHANNELS, 1, 1), value))
        return emit(op.multiply(value, relax.const(2.0, "float32")))

    assert check_prepared(relax_module(body, SHAPE)) == ["nn.conv2d", "subtract", "multiply"]


def test_a_scale_along_the_width_is_not_folded() -> None:
    def body(emit, x):
        return emit(op.multiply(emit(conv(x, CHANNELS)), constant(7)))

    assert check_prepared(relax_module(body, SHAPE)) == ["nn.conv2d", "multiply"]


def test_a_grouped_convolution_takes_the_scale_of_each_output_channel() -> None:
    def body(emit, x):
        weights = constant(CHANNELS, 2, 3, 3)
        value = emit(op.nn.conv2d(x, weights, padding=1, groups=3))
        return emit(relax.TupleGetItem(emit(norm(value, statistics())), 0))

    assert check_prepared(relax_module(body, (1, 6, 5, 5))) == ["nn.conv2d", "add"]


def test_weights_keep_their_type() -> None:
    def body(emit, x):
        value = emit(op.nn.conv2d(x, relax.const(np.ones((4, 5, 3, 3)), "float64")))
        return emit(op.multiply(value, relax.const(2.5, "float64")))

    mod = relax_module(body, relax.TensorType(SHAPE, "float64"))
    check_prepared(mod)
    check_scheduled(mod)


def test_an_operand_of_more_axes_is_not_folded() -> None:
    def body(emit, x):
        five = relax.const(np.full((1, 1, 1, 1, 1), 2.0), "float32")
        return emit(op.multiply(emit(conv(x, CHANNELS)), five))

    mod = relax_module(body, SHAPE)
    assert check_prepared(mod) == ["nn.conv2d", "multiply"]
    check_scheduled(mod)


def test_a_convolution_to_another_type_is_not_folded() -> None:
    def body(emit, x):
        weights = relax.const(np.ones((4, 5, 3, 3)), "float16")
        value = emit(op.nn.conv2d(x, weights, out_dtype="float32"))
        return emit(op.multiply(value, relax.const(2.5, "float32")))

    mod = relax_module(body, relax.TensorType(SHAPE, "float16"))
    assert check_prepared(mod) == ["nn.conv2d", "multiply"]
    check_scheduled(mod)


def test_a_convolution_that_is_read_twice_is_not_folded() -> None:
    def body(emit, x):
        value = emit(conv(x, CHANNELS))
        normed = emit(relax.TupleGetItem(emit(norm(value, statistics())), 0))
        return emit(op.add(normed, emit(op.nn.relu(value))))

    mod = relax_module(body, SHAPE)
    assert check_prepared(mod) == ["nn.conv2d", "multiply", "add", "nn.relu", "add"]
    check_scheduled(mod)


def test_a_convolution_that_is_returned_is_not_folded() -> None:
    def body(emit, x):
        value = emit(conv(x, CHANNELS))
        normed = emit(relax.TupleGetItem(emit(norm(value, statistics())), 0))
        return relax.Tuple([value, normed])

    mod = relax_module(body, SHAPE)
    assert check_prepared(mod) == ["nn.conv2d", "multiply", "add"]
    check_scheduled(mod)


def test_weights_that_are_inputs_are_not_folded() -> None:
    def body(emit, x, w):
        value = emit(op.nn.conv2d(x, w, padding=1))
        return emit(relax.TupleGetItem(emit(norm(value, statistics())), 0))

    mod = relax_module(body, SHAPE, (CHANNELS, SHAPE[1], 3, 3))
    assert check_prepared(mod) == ["nn.conv2d", "multiply", "add"]
    check_scheduled(mod)


def test_statistics_that_are_inputs_are_left_alone() -> None:
    def body(emit, x, mean, deviation):
        gamma, beta, _, _ = statistics()
        variance = emit(op.square(deviation))
        value = emit(norm(emit(conv(x, CHANNELS)), [gamma, beta, mean, variance]))
        return emit(op.nn.relu(emit(relax.TupleGetItem(value, 0))))

    mod = relax_module(body, SHAPE, (CHANNELS,), (CHANNELS,))
    assert "nn.batch_norm" in check_prepared(mod)
    check_scheduled(mod)


def test_normalisation_in_training_mode_uses_the_batch() -> None:
    def body(emit, x):
        value = emit(norm(emit(conv(x, CHANNELS)), statistics(), training=True))
        return emit(relax.TupleGetItem(value, 0))

    mod = relax_module(body, SHAPE)
    assert "nn.batch_norm" in check_prepared(mod)
    check_scheduled(mod)


def test_statistics_that_are_read_themselves_stay() -> None:
    def body(emit, x):
        value = emit(norm(x, statistics(SHAPE[1])))
        return relax.Tuple([emit(relax.TupleGetItem(value, i)) for i in range(3)])

    mod = relax_module(body, SHAPE)
    check_prepared(mod)
    check_scheduled(mod)


@pytest.mark.parametrize(("shape", "axis"), [((2, 6, 7, 5), 3), ((4, 5), 1), ((2, 5, 7), 1)])
def test_normalisation_of_any_rank_and_axis(shape: tuple[int, ...], axis: int) -> None:
    def body(emit, x):
        value = emit(norm(x, statistics(5), axis=axis))
        return emit(relax.TupleGetItem(value, 0))

    mod = relax_module(body, shape)
    check_prepared(mod)
    check_scheduled(mod)


def test_constants_are_folded() -> None:
    def body(emit, x):
        both = emit(op.add(constant(5), constant(5, seed=1)))
        return emit(op.multiply(x, both))

    assert check_prepared(relax_module(body, (4, 5))) == ["multiply"]


def test_the_module_given_is_not_changed() -> None:
    def body(emit, x):
        value = emit(norm(emit(conv(x, CHANNELS)), statistics()))
        return emit(relax.TupleGetItem(value, 0))

    mod = relax_module(body, SHAPE)
    before = mod.script()
    prepare(mod)
    assert mod.script() == before


def test_other_functions_are_left_as_they_are() -> None:
    def body(emit, x):
        value = emit(norm(emit(conv(x, CHANNELS)), statistics()))
        return emit(relax.TupleGetItem(value, 0))

    builder = relax.BlockBuilder()
    add_function(builder, "main", body, SHAPE)
    add_function(builder, "other", body, SHAPE)
    prepared = prepare(builder.get(), "other")
    assert operators(prepared, "other") == ["nn.conv2d", "add"]
    assert "nn.batch_norm" in operators(prepared, "main")


def test_an_unknown_function_is_named_with_those_that_exist() -> None:
    mod = relax_module(lambda emit, x: emit(op.nn.relu(x)), (1, 2))
    with pytest.raises(ModelError, match="no Relax function 'nain'; it has: main"):
        prepare(mod, "nain")


@pytest.mark.parametrize("name", ["divide", "multiply", "add"])
def test_integers_are_not_folded(name: str) -> None:
    """An integer convolution divided by 3 is not one with weights of a third, which are 0."""

    def body(emit, x):
        weights = relax.const(np.arange(4 * 5 * 9).reshape(4, 5, 3, 3).astype("int32"), "int32")
        value = emit(op.nn.conv2d(x, weights, padding=1, out_dtype="int32"))
        value = emit(getattr(op, name)(value, relax.const(3, "int32")))
        return emit(op.multiply(value, relax.const(2, "int32")))

    mod = relax_module(body, relax.TensorType(SHAPE, "int32"))
    assert check_prepared(mod) == ["nn.conv2d", name, "multiply"]
    check_scheduled(mod)


@pytest.mark.parametrize(
    ("dtype", "weight", "factor"),
    [
        ("float16", 300.0, 300.0),
        ("float16", 3e-4, 3e-4),
        ("float32", 1e30, 1e30),
        ("float32", 1e-30, 1e-30),
        ("float32", 1e-20, 1e-19),  # subnormal: some of its digits are lost
    ],
)
def test_products_out_of_range_are_not_folded(dtype: str, weight: float, factor: float) -> None:
    """Where the weights alone leave the range of the type, and with the image they do not."""
    image = np.full((1, 1, 3, 3), 1 / weight, dtype)

    def body(emit, x):
        weights = relax.const(np.full((2, 1, 1, 1), weight, dtype), dtype)
        value = emit(op.nn.conv2d(x, weights))
        return emit(op.multiply(value, relax.const(np.array(factor, dtype), dtype)))

    mod = relax_module(body, relax.TensorType(image.shape, dtype))
    assert operators(prepare(mod)) == ["nn.conv2d", "multiply"]
    (result,) = run_vm(compile_plain(prepare(mod)), [image])
    assert np.isfinite(result).all()
    assert_close(result, np.full((1, 2, 3, 3), factor, dtype), 1e-2)
    check_scheduled(mod, arguments=[image], relative=1e-2)


def test_a_division_by_zero_is_not_folded_into_weights() -> None:
    def body(emit, x):
        divisors = np.arange(CHANNELS, dtype="float32").reshape(1, -1, 1, 1)
        return emit(op.divide(emit(conv(x, CHANNELS)), relax.const(divisors, "float32")))

    mod = relax_module(body, SHAPE)
    assert operators(prepare(mod)) == ["nn.conv2d", "multiply"]
    (image,) = random_arguments(mod)
    (result,) = run_vm(compile_plain(prepare(mod)), [image])
    assert np.isinf(result[:, 0]).all()
    assert np.isfinite(result[:, 1:]).all()


def test_a_variance_of_nearly_zero_is_not_folded_in_float16() -> None:
    """Its factor, 1000, times the mean is beyond what float16 holds."""

    def body(emit, x):
        arrays = [np.ones(4), np.zeros(4), np.full(4, 100.0), np.full(4, 1e-6)]
        parameters = [relax.const(a.astype("float16"), "float16") for a in arrays]
        return emit(relax.TupleGetItem(emit(norm(x, parameters, epsilon=1e-7)), 0))

    mod = relax_module(body, relax.TensorType((1, 4, 3, 3), "float16"))
    assert "nn.batch_norm" in operators(prepare(mod))
