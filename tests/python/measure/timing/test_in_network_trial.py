# SPDX-License-Identifier: Apache-2.0
"""Which stages run together when some of them are timed, and in which order."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
import tvm
from tvm import relax

from support.concatenating import two_parts
from support.networks import NATIVE, conv, few_stages, relax_module
from support.simulated_device import Simulation, branches, by_size
from tvm_ios.compiler.scheduler import Scheduler
from tvm_ios.measure.timing.in_network_trial import InNetworkTrial, in_network_trials, operators


def chain(count: int) -> tvm.IRModule:
    """Convolutions of which each reads the one before."""

    def body(emit: Callable[[relax.Expr], relax.Var], x: relax.Expr) -> relax.Expr:
        for i in range(count):
            x = emit(conv(x, 4 + i, seed=i))
        return x

    return relax_module(body, (1, 3, 5, 5))


def tried(
    mod: tvm.IRModule, *wanted: Sequence[int], excluded: Sequence[int] = ()
) -> tuple[Simulation, list[InNetworkTrial]]:
    simulation = Simulation(by_size(), mod)
    stages = [simulation.stage_of(*ops) for ops in wanted]
    return simulation, in_network_trials(simulation.stage_builder, stages, frozenset(excluded))


def ran(trial: InNetworkTrial) -> list[list[int]]:
    """The operators of each stage, in the order in which they run."""
    return [operators(stage) for stage in trial.stages]


@pytest.mark.parametrize("timed", [0, 3, 7])
def test_some_stages_run_before_one_that_is_timed(timed: int) -> None:
    """Four at most, which leave the caches as the network does; none after it."""
    simulation, (trial,) = tried(chain(9), [timed])
    assert ran(trial) == [[op] for op in range(max(timed - 4, 0), timed + 1)]
    assert trial.wanted == {simulation.stage_of(timed).key}


def test_what_is_far_from_all_timed_stages_does_not_run() -> None:
    _, (trial,) = tried(chain(16), [1], [14])
    assert ran(trial) == [[0], [1], [10], [11], [12], [13], [14]]


def test_stages_follow_those_that_they_read_from() -> None:
    _, (trial,) = tried(chain(5), [2, 3], [4])
    assert ran(trial) == [[0], [1], [2, 3], [4]]
    _, (trial,) = tried(branches(3), [3], [1, 2], [0])
    assert ran(trial) == [[0], [1, 2], [3]]


def test_stages_of_different_operators_share_a_run() -> None:
    _, trials = tried(branches(4), [0, 1], [1, 2], [2, 3], [4], [0, 3])
    assert [ran(trial) for trial in trials] == [[[0, 1], [2, 3], [4]], [[0, 3], [1, 2]]]
    assert [len(trial.wanted) for trial in trials] == [3, 2]


def test_stages_that_read_from_each_other_both_run() -> None:
    """They were not chosen together: no order suits both."""
    _, (trial,) = tried(chain(4), [0, 3], [1])
    assert ran(trial) == [[0, 3], [1]]


def test_what_cannot_run_is_left_out() -> None:
    _, (trial,) = tried(chain(4), [3], excluded=[1])
    assert ran(trial) == [[0], [2], [3]]


def test_what_launches_nothing_is_left_out() -> None:
    """Parts are written where their concatenation has them; what reads it still follows them."""
    network = relax_module(two_parts(16, 32), (1, 8, 6, 6))
    builder = Scheduler.prepare(network, NATIVE, cost_model=few_stages).stage_builder
    stages = [builder.stage_of((op,), "concurrent") for op in range(4)]
    assert [stage.is_noop for stage in stages] == [False, False, True, False]
    (trial,) = in_network_trials(builder, stages[3:], frozenset())
    assert ran(trial) == [[0], [1], [3]]
