# SPDX-License-Identifier: Apache-2.0
"""Measuring across RPC: what is found there, and what happens when devices are lost or missing."""

from __future__ import annotations

import math
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
import tvm

from support.cli import assert_one_sentence
from support.database import branches
from support.networks import NATIVE, compile_plain, random_arguments, run_vm
from support.rpc import Cluster, free_port, kill
from tvm_ios import DeviceError, OptionError, database
from tvm_ios.backend.cpu.measure.model import CompiledVariants
from tvm_ios.backend.registry import kind_of
from tvm_ios.cli.main import main
from tvm_ios.compiler import steps
from tvm_ios.compiler.compare import compare
from tvm_ios.compiler.scheduler import Scheduler
from tvm_ios.database import MeasurementDatabase
from tvm_ios.database.identity import cpu_model
from tvm_ios.measure.cache import MeasurementCache
from tvm_ios.measure.transport.locations import RPCRunner
from tvm_ios.options import Options

LIMIT = 1.0  # seconds of a stage


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with closing(Cluster({"pair": 2, "bare": 1}, without_library="bare")) as made:
        yield made


@pytest.fixture
def doomed() -> Iterator[Cluster]:
    """A cluster for one test, which kills its servers."""
    with closing(Cluster({"pair": 2}, without_library="none")) as made:
        yield made


def _scheduler(runner: RPCRunner, path: Path | None = None, target: object = NATIVE) -> Scheduler:
    options = Options(max_num_groups=2, winograd=False, database=path)
    return Scheduler.prepare(branches(), target, options=options, runner=runner)


def test_a_network_is_scheduled_and_timed_on_a_device(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = cpu_model()
    monkeypatch.setattr(database.identity, "cpu_model", lambda: "the machine that searches")
    config = {str(k): v for k, v in NATIVE.export().items() if k != "num-cores"}
    runner = RPCRunner(cluster.address, "pair")
    made = _scheduler(runner, tmp_path / "m.sqlite3", tvm.target.Target(config))
    assert made.workers == runner.resolve("llvm").attrs["num-cores"]
    outcome = compare(made)
    assert all(seconds > 0 for seconds in outcome.schedule.measured.values())
    with closing(MeasurementDatabase(tmp_path / "m.sqlite3")) as measured:
        assert {row.device.cpu for row in measured.rows()} == {there}
    mod = branches()
    arguments = random_arguments(mod)
    expected = run_vm(compile_plain(mod), arguments)
    (result,) = [outcome.variants(outcome.name, [tvm.runtime.tensor(a) for a in arguments])]
    np.testing.assert_allclose(result.numpy(), expected[0], rtol=1e-3, atol=1e-3)
    made.close()


def test_rounding_errors_are_those_of_a_device(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The network runs there in both precisions, and never here."""
    monkeypatch.setenv("TVM_IOS_EMULATE_INSTRUCTIONS", "1")
    monkeypatch.delattr(CompiledVariants, "compile")
    options = Options(precision="auto", tolerance=0.05, winograd=False)
    runner = RPCRunner(cluster.address, "pair")
    with closing(steps.prepare(kind_of(NATIVE), branches(), NATIVE, options, runner)) as scheduler:
        schedule = steps.choose(scheduler, search=False)
    assert schedule.rounding is not None
    assert 0 < schedule.rounding.error <= 0.05
    assert "bf16" in {op.kernel for op in schedule.operators}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--rpc-tracker", "127.0.0.1:{free}", "--rpc-key", "k"], "tracker"),
        (["--rpc-tracker", "{tracker}", "--rpc-key", "nobody"], "nobody"),
        (["--rpc-tracker", "{tracker}", "--rpc-key", "bare"], "--load-library"),
        (["--rpc-tracker", "nonsense", "--rpc-key", "k"], "HOST:PORT"),
        (["--rpc-tracker", "{tracker}"], "--rpc-key"),
        (["--rpc-key", "k"], "--rpc-tracker"),
        (["--cross-compiler", "cc"], "--rpc-tracker"),
        (["--rpc-tracker", "{tracker}", "--rpc-key", "pair", "--isolate"], "--isolate"),
        (["--timeout", "3"], "--isolate"),
        (["--timeout", "0", "--isolate"], "above 0"),
    ],
)
def test_what_is_wrong_is_told_in_one_sentence(
    cluster: Cluster, arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    places = {"free": free_port(), "tracker": cluster.address}
    given = [argument.format(**places) for argument in arguments]
    assert main(["bench", "zoo:squeezenet", "--no-database", *given]) == 4
    assert_one_sentence(capsys.readouterr(), words)


def test_a_device_is_reached_when_it_is_needed() -> None:
    runner = RPCRunner(f"127.0.0.1:{free_port()}", "pair")
    for use in (runner.start, runner.connect, lambda: runner.resolve("llvm")):
        with pytest.raises(DeviceError, match="No RPC tracker answers at"):
            use()


def test_a_time_limit_is_above_zero(cluster: Cluster) -> None:
    with pytest.raises(OptionError, match="above 0"):
        RPCRunner(cluster.address, "pair", timeout=math.nan)


def _kill_after(
    additions: int, server: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> list[object]:
    """Kill a server in the middle of the next search; returns what will have been measured."""
    add, added = MeasurementCache.add, []

    def add_and_kill(
        self: MeasurementCache, workload: object, *arguments: object, **named: object
    ) -> None:
        add(self, workload, *arguments, **named)
        added.append(workload)
        if len(added) == additions:
            kill(server)

    monkeypatch.setattr(MeasurementCache, "add", add_and_kill)
    return added


@pytest.mark.slow
def test_killed_servers(doomed: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """One costs no measurement, as there is another; that one ends the search."""
    one, other = doomed.servers["pair"]
    runner = RPCRunner(doomed.address, "pair", timeout=LIMIT)
    with monkeypatch.context() as patch:
        added = _kill_after(4, one, patch)
        made = _scheduler(runner)
        found = made.search()
    assert one.poll() is not None
    assert len(added) > 4
    opaque = made.stage_builder.lowered.opaque
    names = set(made.graph.names(sorted(opaque)))
    seconds = [s.seconds for s in found.stages if not names.intersection(*s.groups)]
    assert all(0 < s < math.inf for s in seconds)
    made.emit(found)
    made.close()

    with monkeypatch.context() as patch:
        few = _kill_after(2, other, patch)
        with pytest.raises(DeviceError, match="No device of the key 'pair' could be used for 8 s"):
            _scheduler(runner).search()
    assert 2 <= len(few) < len(added)
