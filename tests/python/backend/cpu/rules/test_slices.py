# SPDX-License-Identifier: Apache-2.0
"""Equal slices at different places of a tensor are computed by one function."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import tvm
from tvm import relax

from support.networks import NATIVE, check_scheduled, few_stages, relax_module
from tvm_ios.backend.cpu.code.functions import link_kernels
from tvm_ios.backend.cpu.kernels.kernel import Kernel
from tvm_ios.backend.cpu.kernels.rows.strided import StridedMap
from tvm_ios.compiler.scheduler import Scheduler
from tvm_ios.ops.strides import Strides

SHAPE = (3, 40, 37)
ROWS = SHAPE[2]


def sliced(cuts: Sequence[tuple[list[int], list[int], list[int], list[int]]]) -> tvm.IRModule:
    """Slices of what is computed, each with an operation behind it."""

    def body(emit, x):
        softmax = emit(relax.op.nn.softmax(x))
        parts = [emit(relax.op.strided_slice(softmax, *cut)) for cut in cuts]
        return emit(relax.Tuple([emit(relax.op.negative(part)) for part in parts]))

    return relax_module(body, SHAPE)


CUTS = {
    "rows": [([1], [k], [k + 3], [1]) for k in range(0, 36, 5)],
    "columns": [([2], [k], [k + 5], [1]) for k in range(0, 30, 3)],
    "every second": [([0, 1], [1, k], [3, k + 9], [1, 2]) for k in range(0, 30, 4)],
    "backwards": [([1, 2], [k + 20, 36], [k, 0], [-1, -3]) for k in range(0, 19, 4)],
}


def kernels_of(mod: tvm.IRModule) -> list[Kernel]:
    lowered = Scheduler.prepare(mod, NATIVE, cost_model=few_stages).stage_builder.lowered
    return [i.kernel for i in lowered.implementations if i is not None and i.kernel.name == "map"]


@pytest.mark.parametrize("cuts", CUTS.values(), ids=CUTS)
@pytest.mark.parametrize("workers", [1, 2])
def test_slices_anywhere(cuts, workers: int) -> None:
    target = tvm.target.Target({**NATIVE.export(), "num-cores": workers})
    check_scheduled(sliced(cuts), target=target)


def test_those_that_begin_alike_within_a_cache_line_share_their_code() -> None:
    kernels = kernels_of(sliced([([1], [k], [k + 3], [1]) for k in range(36)]))
    assert len({kernel.key for kernel in kernels}) == 36
    places = {k * ROWS % 16 for k in range(36)}  # numbers of 4 bytes
    assert len({kernel.code[0].key for kernel in kernels}) == len(places) < 36
    aligned = kernels_of(sliced([([1], [k], [k + 3], [1]) for k in (0, 32)]))
    assert aligned[0].code[0] == aligned[1].code[0]
    assert [kernel.code[1] for kernel in aligned] == [(0, 0), (4 * ROWS * 32, 0)]


def test_a_runner_computes_the_same_part(tmp_path: Path) -> None:
    kernels = kernels_of(sliced([([1], [k], [k + 3], [1]) for k in (1, 33)]))
    named = {f"slice{n}": (kernel, 0) for n, kernel in enumerate(kernels)}
    link_kernels(named, NATIVE, tmp_path / "slices.so")
    module = tvm.runtime.load_module(str(tmp_path / "slices.so"))
    data = np.random.default_rng(0).standard_normal(SHAPE).astype("float32")
    for n, begin in enumerate((1, 33)):
        result = tvm.runtime.tensor(np.full((3, 3, ROWS), np.nan, "float32"))
        module[f"slice{n}"](tvm.runtime.tensor(data), result, 0, kernels[n].num_tiles)
        np.testing.assert_array_equal(result.numpy(), -data[:, begin : begin + 3])


def test_a_part_begins_where_bytes_are_aligned_and_holds_what_is_read() -> None:
    read = StridedMap((3, 5), Strides(1000, (10, -2), 200))
    assert read.part(64) == (192, StridedMap((3, 5), Strides(29, (10, -2), 8)))
    assert read.part(16) == (192, StridedMap((3, 5), Strides(29, (10, -2), 8)))
    whole = StridedMap((4, 5), Strides(20, (5, 1)))
    assert whole.part(16) == (0, whole)


def test_a_kernel_made_of_another_one_has_code_of_its_own() -> None:
    (kernel,) = kernels_of(sliced([([1], [32], [35], [1])]))
    assert kernel.code[0] != kernel
    made = Kernel(**{**vars(kernel), "key": (kernel.key, "other")})
    assert made.code == (made, (0, 0))
