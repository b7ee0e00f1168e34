# SPDX-License-Identifier: Apache-2.0
"""Convolutions by cuDNN: which operators, and what is asked of a fake of the library."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from tvm import relax

from support.cuda import cudnn as cudnn_cases
from support.cuda.fake_driver import Emulated, build_cudnn_fake_driver, plain
from support.cuda.problems import PROBLEMS, SQUARE, problem, window
from support.networks import assert_close, constant, relax_module
from support.paths import TESTS, with_path
from tvm_ios.backend.cuda.kernels.cudnn import CudnnProblem
from tvm_ios.backend.cuda.rules.cudnn import cudnn_problem
from tvm_ios.backend.cuda.rules.layouts import channels_last_values
from tvm_ios.graph.extract import extract
from tvm_ios.lowering.no_rule import NoRule
from tvm_ios.rewrite.prepare import prepare
from tvm_ios_runtime.library import find_cudnn

IMAGE = (1, 6, 9, 9)
EXACTNESS = {"float32": 1e-6, "float16": 1e-3, "bfloat16": 8e-3}


def arrays(of: CudnnProblem, seed: int = 0) -> list[np.ndarray]:
    random = np.random.default_rng(seed)
    return [
        random.standard_normal(spec.shape).astype(
            ml_dtypes.bfloat16 if spec.dtype == "bfloat16" else spec.dtype
        )
        for spec in of.inputs
    ]


def reference(of: CudnnProblem, inputs: list[np.ndarray]) -> np.ndarray:
    """The problem in float64, tap by tap."""
    x, w, *addends = (array.astype("float64") for array in inputs)
    if of.channels_last:
        x, w = x.transpose(0, 3, 1, 2), w.transpose(0, 3, 1, 2)
    rows, columns = of.rows, of.columns
    pads = [(0, 0), (0, 0), (rows.before,) * 2, (columns.before,) * 2]
    x = np.pad(x, pads).reshape(
        of.batch, of.groups, -1, *(x.shape[i] + sum(pads[i]) for i in (2, 3))
    )
    w = w.reshape(of.groups, -1, *w.shape[1:])
    y = 0.0
    for i in range(rows.kernel):
        for j in range(columns.kernel):
            down, right = i * rows.dilation, j * columns.dilation
            taps = x[:, :, :, down :: rows.stride, right :: columns.stride]
            taps = taps[..., : rows.out, : columns.out]
            y = y + np.einsum("ngchw,goc->ngohw", taps, w[..., i, j])
    y = y.reshape(of.batch, of.out_channels, rows.out, columns.out)
    y = y.transpose(0, 2, 3, 1) if of.channels_last else y
    if addends:
        y = y + addends[0].reshape((-1,) if of.channels_last else (-1, 1, 1))
    y = y + (addends[1] if of.residual else 0)
    y = np.maximum(y, 0) if of.epilogue == "bias_relu" else y
    return y.astype(inputs[0].dtype)


@pytest.fixture(scope="module")
def cudnn(fake_driver: Path, emulated: Emulated) -> Emulated:
    """A process in which cuDNN is the fake driver."""
    build_cudnn_fake_driver(fake_driver)
    assert emulated.call(cudnn_cases.use_fake_driver) == "9.28.0"
    return emulated


@pytest.fixture(scope="module")
def results(cudnn: Emulated) -> dict[str, np.ndarray]:
    """What all algorithms make of all problems."""
    inputs = {name: arrays(of) for name, of in PROBLEMS.items()}
    return cudnn.call(cudnn_cases.convolve, PROBLEMS, inputs)


@pytest.mark.parametrize("name", PROBLEMS)
def test_convolutions(results: dict[str, np.ndarray], name: str) -> None:
    of = PROBLEMS[name]
    found = {key: result for key, result in results.items() if key.rpartition("_")[0] == name}
    assert f"{name}_1" in found
    expected = reference(of, arrays(of))
    for result in found.values():
        assert result.dtype == expected.dtype
        exactness = EXACTNESS[of.output.dtype]
        assert_close(result.astype("float32"), expected.astype("float32"), exactness)


def test_a_bias_without_relu_has_one_algorithm(results: dict[str, np.ndarray]) -> None:
    assert {key for key in results if key.startswith("bias_")} == {"bias_1"}
    assert {key for key in results if key.startswith("relu_")} == {"relu_0", "relu_1", "relu_2"}


def test_an_algorithm_that_there_is_not(cudnn: Emulated) -> None:
    said = cudnn.call(cudnn_cases.refusal, SQUARE, 6, arrays(SQUARE))
    assert said.startswith("cuDNN cannot compute this convolution on this device, ")
    assert said.endswith(": choose another algorithm, or do without cuDNN")


def test_a_kernel_that_cudnn_refuses_is_not_chosen(cudnn: Emulated) -> None:
    *variants, chosen = cudnn.call(cudnn_cases.choose_a_kernel, IMAGE)
    assert variants == ["cudnn6", "cudnn1", "cudnn0"]
    assert chosen in ("cudnn1", "cudnn0")


@pytest.mark.parametrize("order", ["", "reverse"])
def test_side_by_side_in_a_graph(cudnn: Emulated, order: str) -> None:
    _, first = arrays(SQUARE)
    _, second = arrays(SQUARE, seed=1)
    images = [arrays(SQUARE, seed)[0] for seed in (2, 3, 4)]
    results, journals = cudnn.call(
        cudnn_cases.run_side_by_side, SQUARE, [first, second], images, order
    )
    for image, result in zip(images, results, strict=True):
        x = np.maximum(image, 0)
        expected = np.abs(reference(SQUARE, [x, first]) + reference(SQUARE, [x, second]))
        assert_close(result, expected, 1e-5)
    assert not [line for journal in journals for line in journal if "misuse" in line]
    warm_up, *replays = map(plain, journals)
    launched = [line for line in warm_up if line.startswith("launch cudnn1_fma")]
    assert len({line.split()[-1] for line in launched[:2]}) == 2  # two streams
    for journal in replays:
        assert not [line for line in journal if line.startswith("launch cudnn")]
        assert sum(line.count("cudnn1_fma") for line in journal) == 2


def test_a_network_of_cudnn_s_kernels(cudnn: Emulated) -> None:
    images = [
        np.random.default_rng(seed).standard_normal(IMAGE).astype("float32") for seed in range(3)
    ]
    results, expected, journals = cudnn.call(cudnn_cases.run_network, images, "reverse")
    for one, other in zip(results, expected, strict=True):
        assert_close(one, other, 1e-5)
    assert not [line for journal in journals for line in journal if "misuse" in line]
    for journal in journals[1:]:
        (replayed,) = [line for line in journal if "replay" in line]
        assert replayed.count("cudnn1_fma") == 4


def of_network(*inputs: Any, body: Any, precision: str = "fp32", last: bool = True):
    """The problem of the first operator of a network."""
    graph = extract(prepare(relax_module(body, *inputs)))
    layouts = channels_last_values(graph) if last else {}
    return cudnn_problem(graph.operators[0], layouts, precision)


def convolution(x: relax.Expr, **options: Any) -> relax.Expr:
    return relax.op.nn.conv2d(x, constant(8, 6, 3, 3), **{"padding": 1, **options})


def test_a_convolution_alone() -> None:
    found, (x, w) = of_network(IMAGE, body=lambda emit, x: emit(convolution(x, strides=2)))
    side = window(9, 3, stride=2, pad=1)
    assert found == problem(side, side, batch=1)
    assert x.name == "x0"
    assert w.shape == (8, 3, 3, 6)


@pytest.mark.parametrize("residual_first", [False, True])
def test_what_follows_a_convolution(residual_first: bool) -> None:
    def body(emit, x, z):
        bias = constant(1, 8, 1, 1, seed=1)
        y = emit(convolution(x))
        for addend in [z, bias] if residual_first else [bias, z]:
            y = emit(relax.op.add(y, addend))
        return emit(relax.op.nn.relu(y))

    # A parameter of the function is no feature map until a convolution or a pool reads it.
    found, inputs = of_network(IMAGE, (1, 8, 9, 9), body=body, precision="tf32", last=False)
    assert (found.epilogue, found.residual, found.precision) == ("bias_relu", True, "tf32")
    assert not found.channels_last
    assert [getattr(value, "name", "constant") for value in inputs] == [
        "x0", "constant", "constant", "x1",
    ]  # fmt: skip
    with pytest.raises(NoRule):
        of_network(IMAGE, (1, 8, 9, 9), body=body)


def test_a_relu_without_a_bias_gets_one_of_zeros() -> None:
    found, inputs = of_network(
        IMAGE, body=lambda emit, x: emit(relax.op.nn.relu(emit(convolution(x))))
    )
    assert found.epilogue == "bias_relu"
    np.testing.assert_array_equal(inputs[2], np.zeros(8, "float32"))


def test_half_precision() -> None:
    weights = relax.const(np.ones((8, 6, 3, 3), "float16"))
    found, (_, w) = of_network(
        relax.TensorType(IMAGE, "float16"),
        body=lambda emit, x: emit(relax.op.nn.conv2d(x, weights, padding=1)),
    )
    assert found.precision == "fp16"
    assert w.dtype == np.float16


def test_padding_that_no_window_reaches() -> None:
    found, _ = of_network(
        (1, 6, 8, 8), body=lambda emit, x: emit(convolution(x, padding=(1, 1, 0, 0), strides=2))
    )
    assert found.rows == window(8, 3, stride=2, pad=1)


UNKNOWN = {
    "padding behind alone": lambda emit, x: emit(convolution(x, padding=(0, 0, 1, 1))),
    "another function": lambda emit, x: emit(relax.op.tanh(emit(convolution(x)))),
    "after relu": lambda emit, x: emit(
        relax.op.add(emit(relax.op.nn.relu(emit(convolution(x)))), constant(1, 8, 1, 1))
    ),
    "a factor": lambda emit, x: emit(relax.op.multiply(emit(convolution(x)), constant(1, 8, 9, 9))),
    "no convolution": lambda emit, x: emit(relax.op.nn.max_pool2d(x, (3, 3))),
    "weights of its own": lambda emit, x: emit(relax.op.nn.conv2d(x, x)),
}


@pytest.mark.parametrize("name", UNKNOWN)
def test_what_cudnn_does_not_compute(name: str) -> None:
    with pytest.raises(NoRule):
        of_network(IMAGE, body=UNKNOWN[name])


def test_cudnn_is_found_among_packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    library = tmp_path / "nvidia" / "cudnn" / "lib" / "libcudnn.so.9"
    library.parent.mkdir(parents=True)
    library.touch()
    monkeypatch.delitem(sys.modules, "nvidia", raising=False)
    monkeypatch.syspath_prepend(str(tmp_path))
    assert find_cudnn() == library


REAL = """
import tvm_ios
from support.cuda.problems import PROBLEMS
from tvm_ios.backend.cuda.kernels.cudnn import cudnn_algorithms, cudnn_version
print(cudnn_version())
for of in PROBLEMS.values():
    try:
        print(len(cudnn_algorithms(of)))
    except tvm_ios.DeviceError as error:
        print(error)
"""


@pytest.mark.skipif(find_cudnn() is None, reason="nvidia-cudnn-cu13 is not installed")
def test_the_real_library_has_what_is_asked_of_it() -> None:
    done = subprocess.run(
        [sys.executable, "-c", REAL], env=with_path(TESTS), check=True,
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    version, *answers = done.stdout.splitlines()
    assert int(version.split(".")[0]) >= 9
    # Without a GPU cuDNN takes the descriptors, and the driver is missed only after that.
    no_driver = all(answer.startswith("CUDA's driver cannot be loaded") for answer in answers)
    assert no_driver or all(int(answer) > 0 for answer in answers)
