# SPDX-License-Identifier: Apache-2.0
"""Tensors that lie on the GPU: models read them there, on the stream that they are called on."""

from __future__ import annotations

import threading
import time
from functools import lru_cache

import numpy as np
import pytest
import tvm
import tvm_ffi
from tvm import relax

import tvm_ios
from support.cuda.fake_driver import Emulated, plain
from support.cuda.model import Driver
from support.networks import assert_close, compile_plain, random_arguments, relax_module, run_vm
from tvm_ios_runtime.streams import StreamLock


def two_kernels(emit, x):
    return emit(relax.op.tanh(emit(relax.op.nn.max_pool2d(emit(relax.op.nn.relu(x)), (2, 2)))))


SHAPE = (1, 4, 6, 6)
NETWORK = relax_module(two_kernels, SHAPE)
ARGUMENTS = random_arguments(NETWORK)


class Lent:
    """A tensor of a library that knows DLPack, and not TVM."""

    def __init__(self, tensor: tvm_ffi.Tensor) -> None:
        self._tensor = tensor
        self.streams: list[int | None] = []

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._tensor.__dlpack_device__()

    def __dlpack__(self, *, stream: int | None = None) -> object:
        self.streams.append(stream)
        return self._tensor.__dlpack__()


@lru_cache(maxsize=1)
def model() -> tvm_ios.CompiledModel:
    return tvm_ios.compile(NETWORK, target="cuda", search=False)


def new_stream() -> int:
    return tvm_ffi.get_global_func("runtime.Device_StreamCreate")(tvm.cuda(0))


def stays_there(arguments: list[np.ndarray]) -> list[np.ndarray]:
    """What two runs compute of tensors on the device, the first after the second has ended."""
    tensors = [tvm.runtime.tensor(array, tvm.cuda(0)) for array in arguments]
    first = model()(*tensors)
    others = [tvm.runtime.tensor(2 * array, tvm.cuda(0)) for array in arguments]
    with Driver().journal() as journal:
        second = model()(*map(Lent, others))
    assert first.device == second.device == tvm.cuda(0)
    assert not [line for line in journal if "launch copy" in line or "synchronize" in line]
    return [np.asarray(result.numpy()) for result in (first, second)]


def on_streams(arguments: list[np.ndarray]) -> tuple[list[np.ndarray], list[list[str]]]:
    """Results of calls on a stream of one's own, twice, and from the host; with their journals."""
    lent = [Lent(tvm.runtime.tensor(array, tvm.cuda(0))) for array in arguments]
    model()(*lent)
    stream, results, journals = new_stream(), [], []
    for _ in range(2):
        with Driver().journal() as journal, tvm_ffi.use_raw_stream(tvm.cuda(0), stream):
            results.append(model()(*lent))
        journals.append(journal)
    assert [value.streams for value in lent] == [[1, stream, stream]] * len(lent)
    with Driver().journal() as journal, tvm_ffi.use_raw_stream(tvm.cuda(0), stream):
        results.append(model()(*arguments))
        assert tvm_ffi.get_raw_stream(tvm.cuda(0)) == stream
    journals.append(journal)
    return [np.asarray(r if isinstance(r, np.ndarray) else r.numpy()) for r in results], journals


def refusals(arguments: list[np.ndarray]) -> list[str]:
    """What is said of tensors that cannot be read where they are."""
    (array,) = arguments
    here, there = (tvm.runtime.tensor(array, tvm.cuda(number)) for number in (0, 1))
    long = tvm.runtime.tensor(np.append(array.ravel(), array.ravel()[:1]), tvm.cuda(0))
    shifted = long._create_view(array.shape, relative_byte_offset=4)
    wrong = tvm.runtime.tensor(array.astype("float64"), tvm.cuda(0))
    cpu = tvm_ios.compile(NETWORK, search=False)
    said = []
    for called, inputs in [
        (model(), [there]), (model(), [wrong]), (model(), [here, array]), (model(), [shifted]),
        (cpu, [here]),
    ]:  # fmt: skip
        with pytest.raises(ValueError, match=r"\.$") as refused:
            called(*inputs)
        said.append(str(refused.value))
    return said


def expected(arguments: list[np.ndarray]) -> np.ndarray:
    (result,) = run_vm(compile_plain(NETWORK), arguments)
    return result


def test_results_stay_where_the_inputs_are(emulated: Emulated) -> None:
    first, second = emulated.call(stays_there, ARGUMENTS)
    assert_close(first, expected(ARGUMENTS), 1e-5)
    assert_close(second, expected([2 * array for array in ARGUMENTS]), 1e-5)


def test_runs_on_streams_follow_each_other(emulated: Emulated) -> None:
    results, journals = emulated.call(on_streams, ARGUMENTS)
    for result in results:
        assert_close(result, expected(ARGUMENTS), 1e-5)
    first, second, host = map(plain, journals)
    assert first[:4] == ["create e1", "record e1 s0", "wait s1 e1", "destroy e1"]
    assert host[:4] == ["create e1", "record e1 s1", "wait s0 e1", "destroy e1"]
    for journal, stream in ((first[4:], "s1"), (second, "s1"), (host[4:], "s0")):
        work = [line.split() for line in journal if line.startswith(("launch", "replay"))]
        assert {words[2] for words in work} == {stream}
    assert not [line for line in second if line.startswith(("record", "wait", "synchronize"))]


def test_what_cannot_be_read_where_it_is(emulated: Emulated) -> None:
    there, wrong, many, shifted, cpu = emulated.call(refusals, ARGUMENTS)
    assert there == "The model runs on CUDA device 0, but x0 is on CUDA device 1; move it."
    assert wrong.endswith("got float64[1, 4, 6, 6].")
    assert many.endswith("got 2 arrays.")
    assert shifted == "x0 is not contiguous, or not aligned to 64 bytes; copy it."
    assert cpu == "The model runs on the CPU; move its inputs there."


def test_a_stream_waits_until_those_on_another_have_ended(monkeypatch) -> None:
    """Runs on one stream overlap; what they have given back is used on another only behind them."""
    followed: list[tuple[int, int]] = []
    functions = {"runtime.Device_StreamSyncFromTo": lambda _, a, b: followed.append((a, b))}
    monkeypatch.setattr(tvm_ffi, "get_global_func", functions.get)
    lock, both, order = StreamLock(tvm_ffi.device("cuda", 0)), threading.Barrier(3), []

    def run(stream: int) -> None:
        with lock.on(stream):
            if stream == 0:
                both.wait(timeout=10)
                time.sleep(0.05)
            order.append(stream)

    threads = [threading.Thread(target=run, args=(stream,)) for stream in (0, 0, 7)]
    for thread in threads[:2]:
        thread.start()
    both.wait(timeout=10)  # two are at it
    threads[2].start()
    for thread in threads:
        thread.join(timeout=10)
    assert order == [0, 0, 7]
    assert followed == [(0, 7)]
