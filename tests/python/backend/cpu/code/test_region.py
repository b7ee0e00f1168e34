# SPDX-License-Identifier: Apache-2.0
"""A region computes what its operators compute one by one, however it is cut into stages."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
import pytest
import scipy.special
import tvm
from tvm import relax, tirx
from tvm.tirx.script import builder as T

from support.conv2d import Case, reference
from support.networks import NATIVE, assert_close, isa_of, relax_module
from tvm_ios.backend.cpu.code.constants import Constants
from tvm_ios.backend.cpu.code.driver import driver_function
from tvm_ios.backend.cpu.code.functions import KernelFunctions, build_drivers
from tvm_ios.backend.cpu.code.launch_code import LaunchCode, launches_source
from tvm_ios.backend.cpu.code.launch_tables import LaunchTables
from tvm_ios.backend.cpu.code.region import CpuStage, Region, form_region
from tvm_ios.backend.cpu.kernels.conv.conv2d import conv2d_kernel
from tvm_ios.backend.cpu.kernels.conv.shape import Conv2d
from tvm_ios.backend.cpu.kernels.convert import block_kernel, unblock_kernel
from tvm_ios.backend.cpu.kernels.generic import generic_kernel
from tvm_ios.backend.cpu.kernels.kernel import Kernel, Phase
from tvm_ios.backend.cpu.kernels.layout import pack_weights
from tvm_ios.backend.cpu.kernels.maps.concat import concat_kernel
from tvm_ios.backend.cpu.kernels.maps.planes import Planes, planes_kernel
from tvm_ios.backend.cpu.stage.partition import plan
from tvm_ios.backend.cpu.stage.plan import PlannedCall
from tvm_ios.lowering.implementation import Implementation, Slot
from tvm_ios.ops.tensor import TensorSpec
from tvm_ios.ops.window import Window
from tvm_ios.schedule.synchronization import SYNCHRONIZATIONS, Synchronization

LANES = isa_of(NATIVE)[0].lanes
CHANNELS = (2 * LANES, 20)  # of the convolution, which fills its blocks, and the pooling
SHAPE = (1, 20, 6, 7)
RESULT = (1, sum(CHANNELS), 6, 7)
ROWS = (9, 50)

_random = np.random.default_rng(0)
IMAGE = _random.standard_normal(SHAPE).astype("float32")
WEIGHTS = _random.standard_normal((CHANNELS[0], 20, 3, 3)).astype("float32")
ROW_VALUES = _random.standard_normal(ROWS).astype("float32")


def softmax_kernel() -> Kernel:
    """A kernel of several phases with scratch memory."""
    mod = relax_module(lambda emit, x: emit(relax.op.nn.softmax(x, axis=-1)), ROWS)
    legal = relax.transform.LegalizeOps()(mod)
    (function,) = [f for f in legal.functions.values() if isinstance(f, tirx.PrimFunc)]
    return generic_kernel("softmax", function, 1)


def variable(name: str) -> relax.Var:
    return relax.Var(name, relax.TensorType(SHAPE, "float32"))


@dataclass
class Network:
    """Two groups: block, then a convolution beside a pooling, concat, unblock; and a softmax."""

    in_place: bool

    def __post_init__(self) -> None:
        self.constants: dict[str, Constants] = {}
        core, layout = isa_of(NATIVE)
        windows = Window(6, 6, 3, before=1), Window(7, 7, 3, before=1)
        conv = Conv2d(1, 20, *windows, CHANNELS[:1])
        pool = Planes("max", 1, 20, *windows)
        names = ("image", "rows", "blocked", "conv", "pool", "both", "result", "softmax")
        self.values = {name: variable(name) for name in names}
        v = self.values
        weights = pack_weights(WEIGHTS, LANES, LANES, 1)
        concat = concat_kernel(1, CHANNELS, 42, layout, () if self.in_place else None)
        parts = () if self.in_place else (v["conv"], v["pool"])
        self.calls = [
            (block_kernel(SHAPE, layout), (v["image"],), v["blocked"], 0, ()),
            (
                conv2d_kernel(conv, layout, layout, core),
                (v["blocked"], weights),
                v["conv"],
                0,
                (0,),
            ),
            (planes_kernel(pool, layout, core), (v["blocked"],), v["pool"], 0, (0,)),
            (concat, parts, v["both"], 0, (1, 2)),
            (unblock_kernel(RESULT, layout), (v["both"],), v["result"], 0, (3,)),
            (softmax_kernel(), (v["rows"],), v["softmax"], 1, ()),
        ]
        begin = 4 * CHANNELS[0] * 42
        slots = {v["conv"]: Slot(v["both"], 0), v["pool"]: Slot(v["both"], begin)}
        self.slots: Mapping[relax.Var, Slot] = slots if self.in_place else {}

    def stages(
        self, cut: Sequence[Sequence[int]], costs: Sequence[float], workers: int, partitioning: str
    ) -> list[CpuStage]:
        """The calls of each stage by position, divided among workers."""
        return [self._stage(members, costs, workers, partitioning) for members in cut]

    def _stage(self, members, costs, workers, partitioning) -> CpuStage:
        position = {call: i for i, call in enumerate(members)}
        planned = [
            PlannedCall(
                self.calls[c][0],
                costs[c],
                self.calls[c][3],
                tuple(position[a] for a in self.calls[c][4] if a in position),
            )
            for c in members
        ]
        implementations = tuple(
            Implementation((c,), self.calls[c][0], self.calls[c][1], (self.calls[c][2],))
            for c in members
        )
        return CpuStage(
            implementations,
            tuple(call.group for call in planned),
            tuple(call.after for call in planned),
            plan(planned, workers, partitioning, 1 << 20),
        )

    def region(self, stages: Sequence[CpuStage]) -> Region:
        visible = {self.values["result"], self.values["softmax"]}
        return form_region(stages, visible, self.slots, Constants.of(stages).offsets)

    def run(
        self, stages: Sequence[CpuStage], function: Callable[..., None]
    ) -> dict[str, np.ndarray]:
        """The outputs of a region's function; they and the workspace held NaN before."""
        region = self.region(stages)
        arrays = self._arrays(region)
        for _ in range(3):
            tensors = [tvm.runtime.tensor(array) for array in arrays]
            function(*tensors)
        first = len(region.inputs)
        return {value.name: tensors[first + i].numpy() for i, value in enumerate(region.outputs)}

    def driver(
        self,
        name: str,
        stages: Sequence[CpuStage],
        kernels: KernelFunctions,
        synchronization: Synchronization,
    ) -> tuple[tirx.PrimFunc, LaunchCode]:
        """The function of a region, and what it calls; ``kernels`` gets those that it calls."""
        region = self.region(stages)
        specs = [TensorSpec(a.shape, str(a.dtype)) for a in self._arrays(region)]
        constants = Constants.of(stages)
        self.constants[constants.symbol] = constants
        return driver_function(name, region, specs, kernels, constants, NATIVE, synchronization)

    def _arrays(self, region: Region) -> list[np.ndarray]:
        given = {"image": IMAGE, "rows": ROW_VALUES}
        arrays = [given[value.name] for value in region.inputs]
        arrays += [np.full(spec.shape, np.nan, "float32") for spec in region.output_specs]
        return [*arrays, np.full(region.workspace_bytes, 0xFF, "uint8")]


def expected_result() -> np.ndarray:
    conv = reference(Case(channels=20, size=SHAPE[2:]), IMAGE, WEIGHTS)
    padded = np.pad(IMAGE, ((0, 0), (0, 0), (1, 1), (1, 1)), constant_values=-np.inf)
    windows = [padded[:, :, i : i + 6, j : j + 7] for i in range(3) for j in range(3)]
    return np.concatenate([conv, np.max(windows, axis=0)], axis=1).astype("float32")


CUTS = {
    "one stage": [[0, 1, 2, 3, 4, 5]],
    "a stage each": [[0], [1], [2], [3], [4], [5]],
    "some": [[0, 5], [1, 2], [3, 4]],
}

COSTS = {"equal": [1.0] * 6, "unequal": [1.0, 40.0, 3.0, 2.0, 1.0, 9.0]}
PARTITIONINGS = ("tiles", "groups")
WORKERS = (1, 2, 5)


@dataclass
class Regions:
    """One network cut and divided in all ways.

    All are functions of one module, which share its kernels: most of the time goes to those.
    """

    network: Network

    def __post_init__(self) -> None:
        kernels, drivers = KernelFunctions(NATIVE), {}
        self._stages: dict[str, list[CpuStage]] = {}
        for cut, *rest in product(CUTS, WORKERS, PARTITIONINGS, COSTS, SYNCHRONIZATIONS):
            name = _name(cut, *rest)
            workers, partitioning, costs, synchronization = rest
            stages = self.network.stages(CUTS[cut], COSTS[costs], workers, partitioning)
            self._stages[name] = stages
            drivers[name] = self.network.driver(name, stages, kernels, synchronization)
        self._module = linked(drivers, kernels, self.network.constants.values())

    def run(self, *way: object) -> dict[str, np.ndarray]:
        """What is computed with this cut, workers, partitioning, costs and synchronization."""
        name = _name(*way)
        return self.network.run(self._stages[name], self._module[name])


def linked(
    drivers: dict[str, tuple[tirx.PrimFunc, LaunchCode]],
    kernels: KernelFunctions,
    constants: Iterable[Constants] = (),
) -> tvm.runtime.Module:
    data = [some.module for some in constants]
    functions = {name: function for name, (function, _) in drivers.items()}
    source = launches_source([launch for _, launch in drivers.values()], NATIVE)
    module = build_drivers(functions, kernels, data, launches=source)
    return tvm.runtime.Executable(module).jit()


def _name(*way: object) -> str:
    return "_".join(map(str, way)).replace(" ", "_").replace("-", "_")


@pytest.fixture(scope="module", params=[False, True], ids=["copied", "in place"])
def regions(request: pytest.FixtureRequest) -> Regions:
    return Regions(Network(request.param))


@pytest.mark.parametrize("workers", WORKERS)
@pytest.mark.parametrize("cut", CUTS)
def test_a_region_computes_what_its_operators_compute(
    regions: Regions, cut: str, workers: int
) -> None:
    for way in product(PARTITIONINGS, COSTS, SYNCHRONIZATIONS):
        values = regions.run(cut, workers, *way)
        assert_close(values["result"], expected_result())
        assert_close(values["softmax"], scipy.special.softmax(ROW_VALUES, axis=-1))


def driver(
    network: Network, stages: Sequence[CpuStage], synchronization: Synchronization = "barrier"
) -> tuple[str, LaunchTables]:
    region = network.region(stages)
    specs = [TensorSpec(SHAPE)] * (len(region.inputs) + len(region.outputs))
    specs.append(TensorSpec((region.workspace_bytes,), "uint8"))
    constants = Constants.of(stages)
    function, launch = driver_function(
        "region", region, specs, KernelFunctions(NATIVE), constants, NATIVE, synchronization
    )
    return function.script(), launch.tables


def test_a_region_is_one_launch_with_a_barrier_between_levels() -> None:
    network = Network(in_place=False)
    for cut, partitioning, levels in (
        (CUTS["one stage"], "tiles", 4),
        (CUTS["one stage"], "groups", 1),
        (CUTS["a stage each"], "tiles", 5 + len(network.calls[5][0].phases)),
    ):
        text, tables = driver(network, network.stages(cut, [1.0] * 6, 2, partitioning))
        assert text.count("pragma_parallel_launch_point") == 1
        assert len(tables.barriers) == levels - 1
        assert not any(part.waits for part in tables.parts)


def test_a_region_needs_no_barrier_if_workers_wait_for_each_other() -> None:
    network = Network(in_place=False)
    stages = network.stages(CUTS["a stage each"], [1.0] * 6, 2, "tiles")
    text, tables = driver(network, stages, "point-to-point")
    assert text.count("pragma_parallel_launch_point") == 1
    assert not tables.barriers
    assert any(part.waits for part in tables.parts)


def test_equal_kernels_are_one_function() -> None:
    network, kernels = Network(in_place=False), KernelFunctions(NATIVE)
    conv = network.calls[1][0]
    assert kernels.get(conv, 0) == kernels.get(Network(in_place=False).calls[1][0], 0)
    assert len(kernels.objects) == 1


def test_parts_of_a_concatenation_in_place_have_no_memory_of_their_own() -> None:
    cut = CUTS["a stage each"]
    sizes = []
    for in_place in (False, True):
        network = Network(in_place)
        sizes.append(network.region(network.stages(cut, [1.0] * 6, 2, "tiles")).workspace_bytes)
    assert sizes[1] < sizes[0]


def test_a_kernel_may_have_memory_of_its_own() -> None:
    """More than TVM puts on the stack: its runtime allocates it, and may fail to."""

    def emit(buffers, begin, extent) -> None:
        with T.serial(begin, begin + extent) as i, T.sblock("tile"):
            T.reads()
            T.writes()
            own = T.alloc_buffer((4096,), scope="global", layout=None)
            with T.serial(4096) as j:
                T.buffer_store(own, buffers[0][i] + T.cast(j, "float32"), [j])
            T.buffer_store(buffers[1], own[i], [i])

    spec = TensorSpec((64,))
    kernel = Kernel("own", "own", (spec,), (spec,), (Phase(64, emit),))
    x, y = variable("x"), variable("y")
    call = PlannedCall(kernel, 1.0, 0, ())
    computed = Implementation((0,), kernel, (x,), (y,))
    stage = CpuStage((computed,), (0,), ((),), plan([call], 2, "tiles", 0))
    kernels, region = KernelFunctions(NATIVE), form_region([stage], {y}, {}, {})
    constants = Constants.of([stage])
    specs = [spec, spec]
    driver = driver_function("region", region, specs, kernels, constants, NATIVE, "barrier")
    module = linked({"region": driver}, kernels)
    values = _random.standard_normal(64).astype("float32")
    result = tvm.runtime.tensor(np.zeros(64, "float32"))
    module["region"](tvm.runtime.tensor(values), result)
    assert_close(result.numpy(), values + np.arange(64, dtype="float32"))
