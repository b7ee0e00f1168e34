# SPDX-License-Identifier: Apache-2.0
"""Calls without a virtual machine compute what it computes, of arrays of any kind."""

from __future__ import annotations

import gc
import threading
from concurrent.futures import ThreadPoolExecutor
from itertools import combinations
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from tvm import relax

import tvm_ios
import tvm_ios_runtime
from support.networks import conv, relax_module
from tvm_ios_runtime import Model, empty

op = relax.op

SHAPE = (1, 3, 7, 5)
BFLOAT16 = np.dtype(ml_dtypes.bfloat16)


def odd(emit, x, y):
    """Two inputs and two outputs of odd sizes, with values between them."""
    both = emit(op.add(x, y))
    deep = emit(conv(emit(op.nn.relu(emit(conv(both, 5, seed=1)))), 3, seed=2))
    return relax.Tuple([deep, relax.Tuple([emit(op.exp(x))])])


def types(emit, bits, truth, whole, small, one, nothing):
    """Types that are not float32, and an input without elements that nothing reads."""
    real = emit(op.astype(bits, "float32"))
    return relax.Tuple(
        [
            real,
            emit(op.astype(emit(op.add(real, real)), "bfloat16")),
            emit(op.astype(truth, "float32")),
            emit(op.add(whole, whole)),
            emit(op.exp(small)),
            emit(op.exp(one)),
        ]
    )


TYPES = [
    relax.TensorType((3, 5), "bfloat16"),
    relax.TensorType((3, 5), "bool"),
    relax.TensorType((3, 5), "uint8"),
    relax.TensorType((3, 5), "float16"),
    relax.TensorType((), "float32"),
    relax.TensorType((0, 4), "float32"),
]


@pytest.fixture(scope="module", params=[1, 2], ids=["one_thread", "two_threads"])
def library(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("prepared") / "model.so"
    mod = relax_module(odd, SHAPE, SHAPE)
    tvm_ios.compile(mod, search=False, threads=request.param).save(path)
    return path


@pytest.fixture
def model(library: Path) -> Model:
    loaded = tvm_ios_runtime.load(library)
    assert loaded.metadata["direct"]["parameters"][:2] == [["input", 0], ["input", 1]]
    assert all(call is not None for call in loaded._calls)
    return loaded


@pytest.fixture
def machine(library: Path) -> Model:
    return by_machine(tvm_ios_runtime.load(library))


@pytest.fixture(params=["direct", "machine"])
def either(request: pytest.FixtureRequest, model: Model, machine: Model) -> Model:
    """A model as it is, and one that needs a virtual machine."""
    return model if request.param == "direct" else machine


def by_machine(model: Model) -> Model:
    """The same model as a library without the metadata's entry is run."""
    model._calls = [None] * len(model.signatures)
    return model


def images(seed: int = 0) -> list[np.ndarray]:
    random = np.random.default_rng(seed)
    return [random.standard_normal(SHAPE).astype("float32") for _ in range(2)]


def assert_equal(actual, expected) -> None:
    assert len(actual) == len(expected)
    for one, other in zip(actual, expected, strict=True):
        assert (one.dtype, one.shape) == (other.dtype, other.shape)
        np.testing.assert_array_equal(one, other)


def unaligned(array: np.ndarray) -> np.ndarray:
    whole = empty((array.size + 1,), array.dtype)
    whole[1:] = array.ravel()
    return whole[1:].reshape(array.shape)


def aligned(array: np.ndarray) -> np.ndarray:
    result = empty(array.shape, array.dtype)
    result[...] = array
    return result


def read_only(array: np.ndarray) -> np.ndarray:
    array = array.copy()
    array.flags.writeable = False
    return array


def split(array: np.ndarray) -> np.ndarray:
    """Elements whose distance is no multiple of their size."""
    record = np.dtype([("value", array.dtype), ("rest", "uint8")])
    records = np.zeros(array.shape, record)
    records["value"] = array
    return records["value"]


LAYOUTS = {
    "aligned": aligned,
    "unaligned": unaligned,
    "read_only": read_only,
    "read_only_unaligned": lambda a: read_only(unaligned(a)),
    "fortran": lambda a: np.array(a, order="F"),
    "backward": lambda a: np.ascontiguousarray(a[..., ::-1, ::-1])[..., ::-1, ::-1],
    "every_other": lambda a: np.repeat(a, 2, axis=-1)[..., ::2],
    "broadcast": lambda a: np.broadcast_to(a[:, :1], a.shape),
    "split": split,
    "subclass": lambda a: a.view(np.recarray),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_inputs_of_any_layout(model: Model, machine: Model, layout: str) -> None:
    for seed in range(3):
        first, second = images(seed)
        laid_out = LAYOUTS[layout](first)
        before = np.array(laid_out)
        expected = machine(before, second)
        assert_equal(model(laid_out, second), expected)
        assert_equal(model(second, laid_out), machine(second, before))
        np.testing.assert_array_equal(laid_out, before)
        named = model.run({"x1": second, "x0": laid_out})
        assert_equal([named["output_0"], named["output_1"]], expected)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("layout", ["aligned", "unaligned", "read_only", "fortran", "split"])
def test_inputs_of_any_type(threads: int, layout: str, tmp_path: Path) -> None:
    path = tmp_path / "model.so"
    tvm_ios.compile(relax_module(types, *TYPES), search=False, threads=threads).save(path)
    model, machine = tvm_ios_runtime.load(path), by_machine(tvm_ios_runtime.load(path))
    assert model._calls[0] is not None
    random = np.random.default_rng(0)
    values = [
        random.standard_normal((3, 5)).astype(BFLOAT16),
        random.random((3, 5)) < 0.5,
        random.integers(0, 256, (3, 5), "uint8"),
        random.standard_normal((3, 5)).astype("float16"),
        np.array(0.5, "float32"),
        np.zeros((7, 8), "float32")[7:, ::2],
    ]
    expected = machine(*values)
    inputs = [LAYOUTS[layout](value) for value in values]
    results = model(*inputs)
    assert_equal(results, expected)
    assert results[1].dtype == BFLOAT16
    outputs = [aligned(np.zeros_like(result)) for result in expected]
    model(*inputs, out=outputs)
    assert_equal(outputs, expected)
    for output in outputs:
        output.fill(0)
    if layout != "split":
        bound = model.bind(inputs, outputs)
        assert_equal(bound(), expected)
    assert_equal(model.bind(values)(), expected)
    for wrong in (values[0].view("uint16"), values[0].astype("float32"), values[0][:2]):
        with pytest.raises(ValueError, match=r"takes x0 bfloat16\[3, 5\]; got"):
            model(wrong, *values[1:])
    outputs[1] = outputs[1].view("uint16")
    with pytest.raises(ValueError, match=r"returns output_1 bfloat16\[3, 5\]; got uint16"):
        model(*values, out=outputs)


def test_arguments_that_are_no_arrays(model: Model, machine: Model) -> None:
    first, second = images()
    with pytest.raises(ValueError, match=r"takes x0 float32\[1, 3, 7, 5\]; got float64\[1, 3, 7"):
        model(first.tolist(), second)
    with pytest.raises(ValueError, match=r"takes x1 float32.*; got object\[\]"):
        model(first, None)
    assert_equal(model(memoryview(first), second), machine(first, second))


@pytest.mark.parametrize(
    ("wrong", "found"),
    [
        (np.zeros(SHAPE), r"float64\[1, 3, 7, 5\]"),
        (np.zeros(SHAPE[1:], "float32"), r"float32\[3, 7, 5\]"),
        (np.zeros((1, 3, 5, 7), "float32"), r"float32\[1, 3, 5, 7\]"),
        (np.zeros((1, 3, 7, 0), "float32"), r"float32\[1, 3, 7, 0\]"),
        (np.zeros(SHAPE, "int32"), r"int32\[1, 3, 7, 5\]"),
        (np.zeros(SHAPE, ">f4"), r">f4\[1, 3, 7, 5\]"),
        (np.zeros(SHAPE, "U3"), r"<U3\[1, 3, 7, 5\]"),
        (read_only(np.zeros(SHAPE)), r"float64\[1, 3, 7, 5\]"),
    ],
)
def test_wrong_inputs_are_named_as_the_machine_does(
    model: Model, machine: Model, wrong: np.ndarray, found: str
) -> None:
    first, second = images()
    sentences = []
    for one in (model, machine):
        with pytest.raises(
            ValueError, match=r"^The model takes x1 float32\[1, 3, 7, 5\]; got"
        ) as error:
            one(first, wrong)
        sentences.append(str(error.value))
    assert sentences[0] == sentences[1]
    with pytest.raises(ValueError, match=r"takes x0 .*, x1 .*; got 1 arrays"):
        model(first)
    with pytest.raises(ValueError, match=r"takes x1 float32.*; got"):
        model.bind([first, wrong])
    assert_equal(model(first, second), machine(first, second))


def test_a_tensor_on_a_gpu_is_refused(model: Model) -> None:
    class Elsewhere:
        def __dlpack_device__(self) -> tuple[int, int]:
            return (2, 0)

    first, _ = images()
    with pytest.raises(ValueError, match="runs on the CPU; move its inputs there"):
        model(first, Elsewhere())
    with pytest.raises(ValueError, match="an input is not; move it there"):
        model(first, Elsewhere(), out=[])
    with pytest.raises(ValueError, match="an input is not; move it there"):
        model.bind([first, Elsewhere()])


def test_outputs_are_the_callers_own(model: Model, machine: Model) -> None:
    held = []
    for seed in range(5):
        first, second = map(aligned, images(seed))
        results = model(first, second)
        for one, other in combinations([first, second, *results], 2):
            assert not np.shares_memory(one, other)
        assert all(result.flags.writeable and result.flags.c_contiguous for result in results)
        held.append((results, machine(first, second)))
    for results, expected in held:
        assert_equal(results, expected)
        for result in results:
            result[...] = -1
    assert_equal(model(*images()), machine(*images()))


def test_results_outlive_the_model(library: Path, machine: Model) -> None:
    model = tvm_ios_runtime.load(library)
    inputs = images()
    results, bound = model(*inputs), model.bind(inputs)
    del model
    gc.collect()
    assert_equal(results, machine(*inputs))
    assert_equal(bound(), machine(*inputs))


@pytest.mark.parametrize("layout", ["aligned", "unaligned", "read_only", "split"])
def test_given_outputs(either: Model, machine: Model, layout: str) -> None:
    first, second = images()
    expected = machine(first, second)
    outputs = [unaligned(np.zeros_like(expected[0])), aligned(np.zeros_like(expected[1]))]
    results = either(LAYOUTS[layout](first), second, out=outputs)
    assert all(one is other for one, other in zip(results, outputs, strict=True))
    assert_equal(outputs, expected)


def test_outputs_that_cannot_be_written(either: Model, machine: Model) -> None:
    first, second = map(aligned, images())
    expected = machine(first, second)
    before = first.copy(), second.copy()
    good = [np.zeros_like(result) for result in expected]
    whole = np.zeros((2, *SHAPE), "float32")
    for outputs, message in [
        ([good[0], np.zeros(SHAPE)], r"returns output_1 float32\[1, 3, 7, 5\]; got float64"),
        ([good[0], good[1][0]], r"returns output_1 .*; got float32\[3, 7, 5\]"),
        ([good[0]], r"returns output_0 .*, output_1 .*; got 1 arrays"),
        ([good[0], read_only(good[1])], "for output_1 .* is read-only"),
        ([good[0], np.asfortranarray(good[1])], "for output_1 .* is not contiguous"),
        ([good[0], split(good[1])], "for output_1 .* is not contiguous"),
        ([good[0], good[0]], "for output_1 .* overlaps an input or another output"),
        ([first, good[1]], "for output_0 .* overlaps an input"),
        ([good[0], second], "for output_1 .* overlaps an input"),
        ([whole.ravel()[1:106].reshape(SHAPE), whole[0]], "for output_1 .* overlaps an input or"),
    ]:
        with pytest.raises(ValueError, match=message):
            either(first, second, out=outputs)
        with pytest.raises(ValueError, match=message):
            either.bind([first, second], outputs)()
        if outputs[0] is not first:
            with pytest.raises(ValueError, match=message):
                either(read_only(first), second, out=outputs)
    for outputs in (good[0], [good[0], good[1].tolist()]):
        with pytest.raises(TypeError, match="a sequence of NumPy's arrays"):
            either(first, second, out=outputs)
    np.testing.assert_array_equal(first, before[0])
    np.testing.assert_array_equal(second, before[1])
    either(first, second, out=list(whole))  # which only touch
    assert_equal(whole, expected)


@pytest.mark.parametrize("layout", ["aligned", "unaligned", "fortran"])
def test_a_bound_call_is_reused(either: Model, machine: Model, layout: str) -> None:
    inputs = [LAYOUTS[layout](image) for image in images()]
    bound = either.bind(inputs)
    given = either.bind(inputs, [unaligned(output) for output in bound.outputs])
    assert all(np.shares_memory(a, b) for a, b in zip(bound.inputs, inputs, strict=True))
    for seed in range(100):
        for array, image in zip(inputs, images(seed), strict=True):
            array[...] = image
        results = bound()
        assert results is bound.outputs
        assert_equal(results, given())
        if seed % 10 == 0:
            assert_equal(results, machine(*images(seed)))


def test_a_bound_call_keeps_its_arrays(model: Model, machine: Model) -> None:
    bound = model.bind(images())
    noise = [empty(SHAPE, "float32") for _ in range(50)]
    for array in noise:
        array.fill(-7)
    assert_equal(bound(), machine(*images()))


def test_an_array_that_cannot_be_viewed_is_not_bound(model: Model) -> None:
    first, second = images()
    with pytest.raises(ValueError, match=r"for x1 float32.* has unusual strides; copy it"):
        model.bind([first, split(second)])


def test_a_bound_call_runs_in_one_thread_at_a_time(either: Model) -> None:
    bound = either.bind(images())
    start, refused = threading.Barrier(4), []

    def call(_: int) -> None:
        start.wait()
        for _ in range(300):
            try:
                bound()
            except RuntimeError as error:
                refused.append(str(error))
                return

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(call, range(4)))
    assert set(refused) <= {"Another thread runs this bound call; bind one for each thread."}
    bound()


def test_threads_call_one_model_at_the_same_time(model: Model, machine: Model) -> None:
    count = 6
    inputs = [
        [LAYOUTS["aligned" if n % 2 else "unaligned"](a) for a in images(n)] for n in range(count)
    ]
    expected = [machine(*arrays) for arrays in inputs]
    start = threading.Barrier(count)

    def call(number: int) -> None:
        start.wait()
        outputs = [np.empty(SHAPE, "float32") for _ in range(2)]
        bound = model.bind(inputs[number])
        for _ in range(60):
            assert_equal(model(*inputs[number]), expected[number])
            assert_equal(model(*inputs[number], out=outputs), expected[number])
            assert_equal(bound(), expected[number])

    with ThreadPoolExecutor(count) as threads:
        list(threads.map(call, range(count)))  # raises what one of them has raised


def test_errors_leave_a_model_usable(model: Model, machine: Model) -> None:
    first, second = images()
    expected = machine(first, second)
    for _ in range(100):
        with pytest.raises(ValueError, match="got float64"):
            model(first, second.astype("float64"))
        with pytest.raises(ValueError, match="overlaps"):
            model(first, second, out=[first, second])
        assert_equal(model(first, second), expected)


def test_each_signature_is_called_directly(tmp_path: Path) -> None:
    """Also for the parts into which a batch is split."""
    path = tmp_path / "model.so"
    compiled = tvm_ios.compile(
        "zoo:mobilenet_v2_small", batch_sizes=[1, 2], search=False, threads=1
    )
    compiled.save(path)
    model, machine = tvm_ios_runtime.load(path), by_machine(tvm_ios_runtime.load(path))
    assert all(call is not None for call in model._calls)
    assert "direct" not in model.metadata
    for batch in (1, 2, 3, 5):
        image = np.random.default_rng(batch).standard_normal((batch, 3, 32, 32)).astype("float32")
        (expected,) = machine(image)
        assert_equal(model(image), [expected])
        output = np.zeros_like(expected)
        model(image, out=[output])
        assert_equal([output], [expected])
        assert_equal(model.bind([image])(), [expected])


def again(emit, x):
    value = emit(op.exp(x))
    return relax.Tuple([value, value])


@pytest.mark.parametrize(
    ("network", "expected"),
    [
        (lambda emit, x: emit(op.sort(emit(op.exp(x)))), lambda x: [np.sort(np.exp(x))]),
        (lambda emit, x: relax.Tuple([emit(op.exp(x)), x]), lambda x: [np.exp(x), x]),
        (again, lambda x: [np.exp(x)] * 2),
    ],
    ids=["an_operator_of_tvm", "an_input", "the_same_twice"],
)
def test_what_needs_a_virtual_machine_has_one(network, expected, tmp_path: Path) -> None:
    path = tmp_path / "model.so"
    tvm_ios.compile(relax_module(network, (3, 5)), search=False, threads=1).save(path)
    model = tvm_ios_runtime.load(path)
    assert "direct" not in model.metadata
    x = np.random.default_rng(0).standard_normal((3, 5)).astype("float32")
    for _ in range(2):
        for result, wanted in zip(model(x), expected(x), strict=True):
            np.testing.assert_allclose(result, wanted, rtol=1e-6)
