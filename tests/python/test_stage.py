# SPDX-License-Identifier: Apache-2.0
"""A stage computes what its operators compute one by one, however its work is divided."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.special
import tvm
from tvm import relax, tirx

from support import NATIVE, assert_close, isa_of, relax_module
from test_kernels_conv2d import Case, reference
from tvm_ios.kernels.concat import concat_kernel
from tvm_ios.kernels.conv2d import Conv2d, conv2d_kernel
from tvm_ios.kernels.convert import block_kernel, unblock_kernel
from tvm_ios.kernels.emit import Window
from tvm_ios.kernels.generic import generic_kernel
from tvm_ios.kernels.kernel import Kernel, TensorSpec
from tvm_ios.kernels.layout import pack_weights
from tvm_ios.kernels.planes import Planes, planes_kernel
from tvm_ios.lower.plan import PlannedCall, plan
from tvm_ios.lower.stage import StageCall, build_functions, stage_function

SHAPE = (1, 20, 6, 7)
RESULT = (1, 44, 6, 7)
ROWS = (9, 50)


def softmax_kernel() -> Kernel:
    """A kernel of several phases with scratch memory."""
    mod = relax_module(lambda emit, x: emit(relax.op.nn.softmax(x, axis=-1)), ROWS)
    legal = relax.transform.LegalizeOps()(mod)
    (function,) = [f for f in legal.functions.values() if isinstance(f, tirx.PrimFunc)]
    return generic_kernel("softmax", function, 1)


class Network:
    """Two groups: block, then a convolution beside a pooling, concat, unblock; and a softmax.

    Attributes
    ----------
    calls : list of (Kernel, tensors by name, group, after)
    tensors : dict of str to TensorSpec
    """

    def __init__(self) -> None:
        core, layout = isa_of(NATIVE)
        conv = Conv2d(1, 20, Window(6, 6, 3, before=1), Window(7, 7, 3, before=1), (24,))
        pool = Planes("max", 1, 20, Window(6, 6, 3, before=1), Window(7, 7, 3, before=1))
        softmax = softmax_kernel()
        scratch = [f"s{i}" for i in range(len(softmax.scratch))]
        self.calls = [
            (block_kernel(SHAPE, layout), ["image", "blocked"], 0, ()),
            (conv2d_kernel(conv, layout, layout, core), ["blocked", "weights", "conv"], 0, (0,)),
            (planes_kernel(pool, layout, core), ["blocked", "pool"], 0, (0,)),
            (concat_kernel(1, (24, 20), 42, layout), ["conv", "pool", "both"], 0, (1, 2)),
            (unblock_kernel(RESULT, layout), ["both", "result"], 0, (3,)),
            (softmax, ["rows", "softmax", *scratch], 1, ()),
        ]
        self.tensors: dict[str, TensorSpec] = {}
        for kernel, names, _, _ in self.calls:
            self.tensors.update(zip(names, kernel.tensors, strict=True))

    def run(self, costs: list[float], workers: int, division: str) -> dict[str, np.ndarray]:
        """The stage's tensors after it ran; what it writes held NaN before."""
        planned = [
            PlannedCall(kernel, cost, group, after)
            for (kernel, _, group, after), cost in zip(self.calls, costs, strict=True)
        ]
        names = list(self.tensors)
        calls = [
            StageCall(kernel, tuple(names.index(n) for n in used))
            for kernel, used, _, _ in self.calls
        ]
        function = stage_function(
            calls, list(self.tensors.values()), plan(planned, workers, division)
        )
        function = function.with_attr("global_symbol", "stage")
        stage = build_functions({"stage": function}, NATIVE).mod["stage"]
        for _ in range(3):
            values = [self.initial(name) for name in names]
            tensors = [tvm.runtime.tensor(value) for value in values]
            stage(*tensors)
        return {name: tensor.numpy() for name, tensor in zip(names, tensors, strict=True)}

    def initial(self, name: str) -> np.ndarray:
        inputs = {"image": IMAGE, "rows": ROW_VALUES}
        if name == "weights":
            lanes = isa_of(NATIVE)[0].lanes
            return pack_weights(WEIGHTS, lanes, lanes, 1)
        return inputs.get(name, np.full(self.tensors[name].shape, np.nan, "float32"))


_random = np.random.default_rng(0)
IMAGE = _random.standard_normal(SHAPE).astype("float32")
WEIGHTS = _random.standard_normal((24, 20, 3, 3)).astype("float32")
ROW_VALUES = _random.standard_normal(ROWS).astype("float32")


def expected_result() -> np.ndarray:
    conv = reference(Case(channels=20, size=SHAPE[2:]), IMAGE, WEIGHTS)
    padded = np.pad(IMAGE, ((0, 0), (0, 0), (1, 1), (1, 1)), constant_values=-np.inf)
    windows = [padded[:, :, i : i + 6, j : j + 7] for i in range(3) for j in range(3)]
    return np.concatenate([conv, np.max(windows, axis=0)], axis=1).astype("float32")


@pytest.mark.parametrize("workers", [1, 2, 3, 5])
@pytest.mark.parametrize("division", ["tiles", "groups"])
def test_a_stage_computes_what_its_operators_compute(workers: int, division: str) -> None:
    network = Network()
    for costs in ([1.0] * 6, [1.0, 40.0, 3.0, 2.0, 1.0, 9.0]):
        values = network.run(costs, workers, division)
        assert_close(values["result"], expected_result())
        assert_close(values["softmax"], scipy.special.softmax(ROW_VALUES, axis=-1))


def test_a_stage_of_several_levels_has_a_barrier_after_each() -> None:
    network = Network()
    planned = [PlannedCall(kernel, 1.0, group, after) for kernel, _, group, after in network.calls]
    names = list(network.tensors)
    calls = [StageCall(k, tuple(names.index(n) for n in used)) for k, used, _, _ in network.calls]
    for division, barriers in (("tiles", 4), ("groups", 0)):
        divided = plan(planned, 2, division)
        text = stage_function(calls, list(network.tensors.values()), divided).script()
        assert text.count("pragma_parallel_barrier_when_finish") == barriers
        assert text.count("T.parallel(2)") == max(barriers, 1)
