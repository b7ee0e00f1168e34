# SPDX-License-Identifier: Apache-2.0
"""Concatenations of feature maps in place on a CUDA device: what is copied, and slices."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest
import tvm
from tvm import relax

from support.concatenating import (
    dense,
    in_two,
    nested,
    part_read_elsewhere,
    result_is_concatenated,
    twice_the_same,
    two_parts,
)
from support.cuda.fake_driver import TARGET, Emulated
from support.cuda.functions import conv_relu, function_of, normal, on_the_cpu
from support.cuda.windows import WINDOWS
from support.networks import (
    UNOPTIMISED,
    assert_close,
    compile_plain,
    conv,
    few_stages,
    many_stages,
    merging,
    random_arguments,
    relax_module,
    run_vm,
)
from tvm_ios import zoo
from tvm_ios.backend.cuda.kernels.match_gemm import ColumnPart
from tvm_ios.backend.cuda.kernels.schedule import plain_schedule, schedule, schedule_divided
from tvm_ios.backend.cuda.kernels.slices import ChannelSlice, within_slices
from tvm_ios.backend.cuda.rules.config import CudaLoweringConfig
from tvm_ios.backend.cuda.rules.implement import CudaNetwork, implement_in_place
from tvm_ios.backend.cuda.rules.inplace import slice_of
from tvm_ios.backend.cuda.target import limits_of
from tvm_ios.compiler.scheduler import Scheduler
from tvm_ios.graph.extract import extract
from tvm_ios.rewrite.prepare import prepare
from tvm_ios_runtime.session import leaves

op = relax.op
WIDTH = 8


def both_leave(emit, x):
    """A part that leaves the network, as the concatenation does."""
    parts = [emit(conv(x, WIDTH, 1, seed=s)) for s in (1, 2, 3)]
    return relax.Tuple([parts[1], emit(op.concat(parts, axis=1))])


def apart(emit, x):
    """What lies between two parts that are copied is copied with them."""
    parts = [emit(conv(x, WIDTH, 1, seed=s)) for s in range(3)]
    return emit(conv(emit(op.concat([x, *parts, x], axis=1)), 20, 1, seed=9))


def siblings(emit, x):
    """Convolutions of one input, that may be merged, in another order than in the result."""
    parts = [emit(op.nn.relu(emit(conv(x, 4 * k, k, seed=k)))) for k in (3, 1, 5)]
    both = emit(op.concat([parts[2], parts[0], parts[1]], axis=1))
    return emit(conv(both, 20, 1, seed=9))


def sums(emit, x):
    """Sums of convolutions as parts, each of which may be one kernel; one is read again."""
    pairs = [[emit(conv(x, WIDTH, k, seed=s)) for k in (1, 3)] for s in (1, 2)]
    parts = [emit(op.nn.relu(emit(op.add(*pair)))) for pair in pairs]
    both = emit(conv(emit(op.concat(parts, axis=1)), WIDTH, 3, seed=3))
    return emit(op.add(both, parts[1]))


def all_kinds(emit, x):
    """Parts by other operators than convolutions, and other operators that read parts."""
    left, right = emit(op.split(x, 2, axis=1))
    pooled = emit(op.nn.max_pool2d(emit(conv(x, WIDTH, 3, seed=1)), (3, 3), padding=(1, 1)))
    average = emit(op.nn.avg_pool2d(pooled, (3, 3), padding=(1, 1)))
    both = emit(op.concat([emit(op.nn.relu(left)), emit(op.add(left, right)), pooled], axis=1))
    again = emit(op.concat([average, both], axis=1))
    means = emit(op.mean(pooled, axis=[2, 3]))
    return relax.Tuple([emit(conv(again, 20, 1, seed=9)), means])


# What is built, the channels of the input, and how many parts have to be copied.
CASES: dict[str, tuple[Callable[..., relax.Expr], int, int]] = {
    "wide parts": (two_parts(8, 16), 20, 0),
    "narrow accesses": (two_parts(6, 10), 20, 0),  # of 8 bytes each, also in tensors of their own
    "accesses that would become narrower": (two_parts(5, 8), 20, 1),
    "a part that others read": (part_read_elsewhere(WIDTH), 20, 0),
    "nested": (nested(WIDTH), 16, 1),  # the function's parameter
    "dense": (dense(WIDTH), 20, 0),
    "the same part twice": (twice_the_same(WIDTH), 20, 1),
    "a part of two": (in_two(WIDTH), 20, 2),
    "a part that leaves the network": (both_leave, 20, 1),
    "a result of the network": (result_is_concatenated(WIDTH), 20, 0),
    "parts between others": (apart, 16, 4),  # each once
    "siblings": (siblings, 20, 0),
    "sums": (sums, 20, 0),
    "all kinds": (all_kinds, 16, 0),
}


def implemented(mod: tvm.IRModule) -> CudaNetwork:
    prepared = prepare(mod, "main", checks_indices=False)
    results = relax.analysis.free_vars(prepared["main"].body.body)
    config = CudaLoweringConfig(TARGET, "fp32", limits_of(TARGET))
    return implement_in_place(extract(prepared, "main"), results, config)


@pytest.mark.parametrize(("body", "channels", "copied"), CASES.values(), ids=CASES)
def test_what_is_copied(body: Callable[..., relax.Expr], channels: int, copied: int) -> None:
    lowered = implemented(relax_module(body, (2, channels, 5, 6))).lowered
    found = zip(lowered.graph.operators, lowered.implementations, strict=True)
    concats = [i for o, i in found if o.kind == "concat" and i is not None]
    assert concats
    assert sum(len(i.inputs) for i in concats) == copied
    assert all(i.kernel.is_noop == (not i.inputs) for i in concats)


def test_tensors_of_the_caller_are_no_slices() -> None:
    network = implemented(relax_module(both_leave, (1, 20, 5, 6)))
    graph = network.lowered.graph
    first, second, third = (o.outputs[0] for o in graph.operators if o.kind == "conv2d")
    slices = [slice_of(value, network.lowered.slots) for value in (first, second, third)]
    assert slices == [ChannelSlice(0, 24), None, ChannelSlice(16, 24)]


def test_an_operator_that_is_left_to_tvm_keeps_all_tensors_apart() -> None:
    def body(emit, x):
        parts = [emit(conv(x, WIDTH, 1, seed=s)) for s in (1, 2)]
        both = emit(op.concat(parts, axis=1))
        return relax.Tuple([both, emit(op.nonzero(both))])

    network = implemented(relax_module(body, (1, 20, 5, 6)))
    assert network.lowered.opaque
    assert not network.lowered.slots
    assert not any(i.kernel.is_noop for i in network.lowered.implementations if i is not None)


@pytest.mark.parametrize(("name", "launches"), [("squeezenet", 31), ("inception_v3", 110)])
def test_public_networks_need_no_copies(name: str, launches: int) -> None:
    """Concatenations were 8 and 11 more."""
    kernels = [i.kernel for i in implemented(zoo.load(name)).lowered.implementations if i]
    assert sum(not kernel.is_noop for kernel in kernels) == launches


def compute(
    mod: tvm.IRModule, arguments: Sequence[np.ndarray], names: Sequence[str]
) -> dict[str, tuple[int, list[np.ndarray]]]:
    """How many stages are merged, and the results, by cost model and by synchronization."""
    models = {"few": few_stages, "many": many_stages, "merging": merging}
    found = {}
    for name in names:
        scheduler = Scheduler.prepare(mod, TARGET, cost_model=models[name])
        schedule = scheduler.search()
        merged = sum(stage.strategy == "merge" for stage in schedule.stages)
        waits = scheduler.compile({"waits": schedule, "one": scheduler.unsearched()})
        for variant in ("waits", "one"):
            results = waits(variant, [tvm.runtime.tensor(argument) for argument in arguments])
            found[f"{name} {variant}"] = merged, [tensor.numpy() for tensor in leaves(results)]
    return found


MERGED = ("siblings", "sums", "a part of two")


@pytest.mark.parametrize("name", CASES)
def test_results_stay_the_same(emulated: Emulated, name: str) -> None:
    body, channels, _ = CASES[name]
    mod = relax_module(body, (2, channels, 5, 6))
    arguments = random_arguments(mod)
    expected = run_vm(compile_plain(mod, UNOPTIMISED), arguments)
    models = ["few", "merging"] if name in MERGED else ["few", "many"]
    made = emulated.call(compute, mod, arguments, models)
    for _, results in made.values():
        for result, wanted in zip(results, expected, strict=True):
            assert_close(result, wanted, 1e-5)
    if name in MERGED:
        assert made["merging waits"][0] > 0


FUNCTIONS = {
    "convolution": (
        conv_relu(padding=1), (1, 9, 10, 16), (3, 3, 16, 24), (1, 1, 1, 24),
    ),
    "bare convolution": (
        lambda emit, x, w: emit(
            op.nn.conv2d(x, w, data_layout="NHWC", kernel_layout="HWIO", strides=2)
        ),
        (2, 9, 9, 20), (3, 3, 20, 12),
    ),
    "sum": (lambda emit, x, y: emit(op.add(x, y)), (2, 5, 6, 12), (2, 5, 6, 12)),
    "max": WINDOWS["max"],
    "depthwise": WINDOWS["depthwise"],
}  # fmt: skip


KERNELS = [(name, "fp32") for name in FUNCTIONS] + [
    (name, "tf32") for name in ("convolution", "bare convolution")
]


@pytest.mark.parametrize(("name", "precision"), KERNELS)
def test_kernels_of_slices(emulated: Emulated, name: str, precision: str) -> None:
    """Every kernel reads a slice and writes another one, and leaves the rest as it was."""
    body, *shapes = FUNCTIONS[name]
    function = function_of(body, *shapes)
    result = len(function.params) - 1
    wide = [int(function.params[i].shape[-1]) for i in (0, result)]
    slices = {0: ChannelSlice(8, wide[0] + 16), result: ChannelSlice(4, wide[1] + 20)}
    sliced = within_slices(function, slices)
    inputs = normal(sliced)
    narrow = [inputs[0][..., 8 : 8 + wide[0]], *inputs[1:]]
    expected = on_the_cpu(function, narrow)
    candidates = schedule(sliced, TARGET, precision)
    families = {candidate.name.split("_")[0]: candidate for candidate in reversed(candidates)}
    pipelines = [c for c in candidates if "*" in c.name][:1]
    plain = plain_schedule(sliced, TARGET)
    assert plain is not None
    ours = {"sum": "dlight", "max": "window", "depthwise": "window"}.get(name, "gemm")
    assert candidates[0].name.startswith(ours)
    for candidate in (*families.values(), *pipelines, plain):
        (actual,) = emulated.run_kernel(candidate.function, inputs, order="1")
        tolerance = 1e-5 if precision == "fp32" or "gemm" not in candidate.name else 2e-3
        assert_close(actual[..., 4 : 4 + wide[1]], expected, tolerance)
        assert np.isnan(actual[..., :4]).all()
        assert np.isnan(actual[..., 4 + wide[1] :]).all()


def test_merged_kernels_write_slices(emulated: Emulated) -> None:
    """Each part of a product's columns goes to a range of a tensor, one of which is its own."""
    body, *shapes = FUNCTIONS["convolution"]
    function = function_of(body, *shapes)
    parts = [
        ColumnPart(8, ChannelSlice(12, 24)), ColumnPart.of(12, None),
        ColumnPart(4, ChannelSlice(0, 8)),
    ]  # fmt: skip
    merged = schedule_divided(function, parts, TARGET, "fp32", limits_of(TARGET))
    inputs = normal(function)
    expected = np.split(on_the_cpu(function, inputs), [8, 20], axis=-1)
    results = emulated.run_kernel(merged.function, inputs, order="1")
    for result, part, wanted in zip(results, parts, expected, strict=True):
        begin, end = part.within.begin, part.within.begin + part.width
        assert_close(result[..., begin:end], wanted, 1e-5)
        assert np.isnan(np.delete(result, range(begin, end), -1)).all()


def test_slices_keep_vectors() -> None:
    """The accesses of a convolution are as wide in slices as in tensors of their own."""
    body, *shapes = FUNCTIONS["convolution"]
    function = function_of(body, *shapes)
    sliced = within_slices(function, {0: ChannelSlice(16, 48), 3: ChannelSlice(4, 40)})
    odd = within_slices(function, {3: ChannelSlice(3, 40)})
    names = [[c.name for c in schedule(f, TARGET)] for f in (function, sliced)]
    assert names[0] == names[1]
    assert schedule(odd, TARGET)
