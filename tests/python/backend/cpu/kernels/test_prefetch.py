# SPDX-License-Identifier: Apache-2.0
"""What a reduction is about to read is prefetched into L1."""

from __future__ import annotations

import pytest

from support.networks import NATIVE, isa_of
from support.prefetched import FIRST_CACHE, KERNELS, LINE, chunks, compiled, marked, recorded
from tvm_ios.backend.cpu.kernels.kernel import Kernel
from tvm_ios.backend.cpu.kernels.prefetch import NEAR

MOST_BLOCKS = 8  # of a register tile


def num_weights(kernel: Kernel) -> int:
    return kernel.tensors[kernel.phases[-1].weights.tensor].num_elements


@pytest.mark.parametrize("name", KERNELS)
def test_weights_come_into_the_first_cache(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """All weights of a chunk do, except the first few, and few others."""
    kernel = max((kernel for kernel, _ in compiled(name)), key=num_weights)
    core, _ = isa_of(NATIVE)
    number, margin = kernel.phases[-1].weights.tensor, MOST_BLOCKS * NEAR * core.lanes
    function = recorded(kernel, number, FIRST_CACHE, monkeypatch)
    parts = list(chunks(kernel))
    ends = [*(tile for tile, *_ in parts[1:]), kernel.phases[-1].num_tiles]
    rest = [num_weights(kernel)] if kernel.phases[-1].prefetches else []
    for (tile, begin, end), last in zip(parts, ends, strict=True):
        found = set(marked(function, kernel, number, (tile, last), *rest).tolist())
        wanted = set(range(begin + margin, end, LINE))
        assert len(found & wanted) >= 0.95 * len(wanted), "all but those of padded channels"
        assert begin + NEAR * core.lanes <= min(found)
        assert max(found) < end + margin


def test_inputs_come_into_the_first_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of the first channels are needed at once."""
    kernel = next(
        kernel
        for kernel, _ in compiled("convolutions")
        if kernel.name == "conv2d"
        and len(kernel.inputs[0].shape) == 4
        and kernel.inputs[0].shape[1] > 1
        and kernel.inputs[0].shape[3] > 1
    )
    function = recorded(kernel, 0, FIRST_CACHE, monkeypatch)
    rest = [0] if kernel.phases[-1].prefetches else []
    found = set(marked(function, kernel, 0, (0, kernel.phases[-1].num_tiles), *rest).tolist())
    _, blocks, pixels, lanes = kernel.inputs[0].shape
    assert found.issuperset(range(pixels * lanes, blocks * pixels * lanes, LINE))
    assert min(found) >= pixels * lanes
