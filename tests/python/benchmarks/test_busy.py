# SPDX-License-Identifier: Apache-2.0
"""Latencies on a machine that others use: neighbours, limits, callers, figures."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import busy
import tvm_ios
from busy_machine import limits
from busy_machine.calls import Callers, Slice
from busy_machine.conditions import CONDITIONS
from busy_machine.graphs import GRAPHS
from busy_machine.limits import quota, stopped_in_turns
from busy_machine.neighbours import busy as busy_processes
from busy_machine.networks import NETWORKS, companion
from busy_machine.processor import machine_seconds, process_seconds
from busy_machine.record import Cell, Record, Run, read
from busy_machine.runtimes import DEFAULT, RUNTIMES
from busy_machine.summary import MEDIAN, P95, Table, render
from peer.contest import deviation
from peer.models import random_inputs
from support.networks import WORKERS
from support.paths import ROOT

onnx = pytest.importorskip("onnx")

RUN = Run(
    "2026-01-02T03:04",
    {"cpu": "Abacus", "cores": 2},
    2,
    {"search": False, "seconds": 1.0, "slice_s": 0.1},
    {"tvm": "0"},
    {},
)


def gone(pid: int) -> bool:
    """Whether a process has ended, soon."""
    for _ in range(500):
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        if state(pid) == "Z":  # of another parent, which does not ask
            return True
        time.sleep(0.01)
    return False


def state(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0]
    except OSError:
        return "Z"


# Neighbours


def test_busy_processes_compute_and_end() -> None:
    with busy_processes(2, nice=19) as pids:
        assert len(set(pids)) == 2
        assert all(os.getpriority(os.PRIO_PROCESS, pid) == 19 for pid in pids)
        used = [process_seconds(pid) for pid in pids]
        while not all(process_seconds(p) > u for p, u in zip(pids, used, strict=True)):
            time.sleep(0.01)
    assert all(map(gone, pids))


def test_a_bound_process_stays_on_its_core() -> None:
    cores = sorted(os.sched_getaffinity(0))
    with busy_processes(len(cores) + 1, bound=True) as pids:
        assert [os.sched_getaffinity(pid) for pid in pids] == [{c} for c in [*cores, cores[0]]]


def test_busy_processes_end_after_an_error() -> None:
    found: list[int] = []

    def fail() -> None:
        with busy_processes(2) as pids:
            found.extend(pids)
            raise RuntimeError("mistake")

    with pytest.raises(RuntimeError, match="mistake"):
        fail()
    assert len(found) == 2
    assert all(map(gone, found))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_busy_processes_end_with_the_benchmark(number: signal.Signals) -> None:
    code = (
        "import sys, time; sys.path.insert(0, 'benchmarks')\n"
        "from busy_machine.neighbours import busy\n"
        "with busy(2) as pids: print(*pids, flush=True); time.sleep(60)\n"
    )
    command = [sys.executable, "-c", code]
    with subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as benchmark:
        assert benchmark.stdout is not None
        pids = [int(word) for word in benchmark.stdout.readline().split()]
        benchmark.send_signal(number)
    assert len(pids) == 2
    assert all(map(gone, pids))


def test_processor_time_is_read_as_the_kernel_says(tmp_path: Path) -> None:
    tick = 1 / os.sysconf("SC_CLK_TCK")
    (tmp_path / "stat").write_text("cpu  1 2 4 1000 1000 8 16 32 64 128\ncpu0 9\n")
    assert machine_seconds(tmp_path) == pytest.approx(63 * tick)
    (tmp_path / "7").mkdir()
    fields = ["S", *map(str, range(4, 14)), "100", "20", "16"]
    (tmp_path / "7" / "stat").write_text(f"7 (a ) b) {' '.join(fields)}\n")
    assert process_seconds(7, tmp_path) == pytest.approx(120 * tick)
    assert process_seconds(8, tmp_path) == 0


# Limits


def test_a_process_is_stopped_and_continued() -> None:
    with busy_processes(1) as (pid,):
        states = set()
        with stopped_in_turns(lambda number: os.kill(pid, number), share=0.5, period=0.04):
            until = time.monotonic() + 10
            while not {"T", "R"} <= states and time.monotonic() < until:
                states.add(state(pid))
        assert {"T", "R"} <= states
        assert state(pid) != "T"


def test_a_process_is_continued_after_an_error() -> None:
    sent: list[signal.Signals] = []

    def fail() -> None:
        with stopped_in_turns(sent.append, share=0.01, period=0.1):
            while not sent:
                time.sleep(1e-3)
            raise RuntimeError("mistake")

    with pytest.raises(RuntimeError, match="mistake"):
        fail()
    assert sent[0] == signal.SIGSTOP
    assert sent[-1] == signal.SIGCONT


def test_no_signal_is_sent_without_a_limit() -> None:
    with stopped_in_turns(pytest.fail, share=1.0):
        pass


def test_a_quota_holds_where_groups_can_be_made() -> None:
    code = "from tvm_ios_env.cgroup import granted_cores; print(granted_cores())"
    with quota(1.5, 2) as limit:
        if limit.share < 1:
            assert limit.prefix() == []
            pytest.skip("no control groups may be written")
        prefix = limit.prefix()
        done = subprocess.run(
            [*prefix, sys.executable, "-c", code], capture_output=True, text=True, check=True
        )
        assert float(done.stdout) == 1.5
        assert limit.prefix() != prefix or prefix[0] == "systemd-run"
    if limit.way.startswith("control group"):
        assert not Path(prefix[3]).parent.exists()


def test_signals_do_where_no_group_can_be_made(tmp_path: Path, monkeypatch) -> None:
    file = tmp_path / "file"
    file.touch()
    monkeypatch.setattr(limits.cgroup, "_groups", lambda: [file, tmp_path])
    monkeypatch.setattr(limits, "_remove", lambda group: None)
    monkeypatch.setenv("PATH", str(tmp_path))  # no systemd-run
    with quota(1.5, 2) as limit:
        assert (limit.way, limit.share) == ("signals (75 ms on, 25 ms off)", 0.75)
        assert limit.prefix() == []
    (group,) = tmp_path.glob("busy-*")  # a folder, but no control group: no quota holds there
    assert (group / "cpu.max").read_text() == "150000 100000"
    with quota(1.5, 1) as limit:
        assert limit.share == 1


# Callers


def test_calls_are_timed_after_a_first_one() -> None:
    counts = [0, 0, 0]

    def call(number: int) -> None:
        counts[number] += 1
        time.sleep(1e-3)

    callers = Callers([lambda: call(0), lambda: call(1)], companion=lambda: call(2))
    found = callers.slice(0.0, least=10)
    assert 10 <= len(found.latencies_ns) == sum(counts[:2]) - 2
    assert min(found.latencies_ns) >= 1e6
    assert found.others == counts[2] - 1 > 0
    assert 0 <= found.cpu_s < found.wall_s
    again = callers.slice(0.03, least=1)
    assert again.wall_s >= 0.03
    found.add(again)
    assert len(found.latencies_ns) == sum(counts[:2]) - 4


def test_a_caller_that_fails_stops_the_others() -> None:
    def fail() -> None:
        raise ValueError("mistake")

    for calls in ([fail, lambda: None], [lambda: None, fail]):
        with pytest.raises((ValueError, RuntimeError)):
            Callers(calls).slice(0.0, least=10)


# Figures


def test_figures_of_a_cell() -> None:
    cell = Cell("mlp", "quiet", "ours")
    latencies = [int(1e6) * ms for ms in range(101)]
    cell.fill(Slice(latencies, others=99, cpu_s=4.0, wall_s=5.0, elsewhere_s=1.5, span_s=6.0))
    assert (cell.median_ms, cell.p95_ms, cell.p99_ms) == (50.0, 95.0, 99.0)
    assert cell.cpu_ms == pytest.approx(20.0)  # of a call, the companion's included
    assert cell.elsewhere == 0.25


def cell(network: str, condition: str, runtime: str, *figures: float, others: int = 0) -> Cell:
    median, p95, cpu = figures
    return Cell(network, condition, runtime, median, p95, 2 * p95, cpu, 10, others, 0.5, error=0.0)


@pytest.fixture
def record() -> Record:
    cells = [
        cell("mlp", "quiet", "ours", 1.0, 8.0, 2.0),
        cell("mlp", "quiet", "onnxruntime", 4.0, 4.0, 4.0),
        cell("mlp", "quiet", "onnxruntime_parallel", 2.0, 16.0, 3.0),
        cell("mlp", "quiet", "openvino", 3.0, 5.0, 6.0),
        cell("mixer_b16_small", "quiet", "ours", 4.0, 4.0, 6.0),
        cell("mixer_b16_small", "quiet", "openvino", 2.0, 4.0, 2.0),
        cell("mlp", "two_models", "ours", 2.0, 2.0, 8.0, others=30),
        Cell("mlp", "two_models", "openvino", failure="its process ended with status -9"),
    ]
    return Record([RUN], cells)


def test_ours_is_compared_with_the_better_of_the_others(record: Record) -> None:
    table = Table.of(record.cells)
    assert table.networks == ["mlp", "mixer_b16_small"]
    assert table.conditions == ["quiet", "two_models"]
    assert table.ratios("quiet", MEDIAN) == {"mlp": 0.5, "mixer_b16_small": 2.0}
    assert table.ratios("quiet", P95) == {"mlp": 2.0, "mixer_b16_small": 1.0}
    assert table.ratio("mlp", "two_models", MEDIAN) is None


def test_processor_time_is_compared_with_that_of_the_same_calls(record: Record) -> None:
    table = Table.of(record.cells)
    assert table.cpu_growth("quiet", "ours") == 1
    # 40 calls of 8 ms each, of which 10 took 2 ms and 30 of the companion 6 ms when it was quiet
    assert table.cpu_growth("two_models", "ours") == pytest.approx(320 / 200)
    assert table.cpu_growth("two_models", "OpenVINO") is None


def test_medians_are_compared_with_the_quiet_ones(record: Record) -> None:
    table = Table.of(record.cells)
    assert table.slowdown("quiet") == 1
    assert table.slowdown("two_models") == 2  # of the one network that has a figure
    assert table.slowdown("busy1") is None


def test_the_summary_names_the_worst_and_every_failure(record: Record) -> None:
    page = render(record)
    assert page.startswith("Abacus, 2 cores, 2 threads, batch 1, fp32, 2026-01-02. Ours without")
    (quiet,) = [line for line in page.splitlines() if line.startswith("| quiet  ")]
    cells = [c.strip() for c in quiet.strip("|").split("|")]
    expected = ["2", "0.50", "1.00", "mixer_b16_small 2.00", "1.41", "mlp 2.00", "1.41"]
    assert cells == ["quiet", *expected, "1.00", "1.00", "1.00", "1.00"]
    assert "- openvino on mlp, two_models: its process ended with status -9" in page


def test_a_file_is_gone_on_with(record: Record, tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    record.save(path)
    known = read(path)
    assert known == record
    known.begin(replace(RUN, date="later", versions={"tvm": "1"}))
    with pytest.raises(tvm_ios.errors.OptionError, match="another machine"):
        known.begin(replace(RUN, threads=1))
    assert known.complete("mlp", "quiet", DEFAULT)
    assert not known.complete("mlp", "two_models", ["ours", "openvino"])  # one has failed
    known.put([cell("mlp", "two_models", "openvino", 1.0, 2.0, 3.0)])
    assert known.complete("mlp", "two_models", ["ours", "openvino"])
    assert len(known.cells) == len(record.cells)


def test_other_files_are_refused(tmp_path: Path, capsys) -> None:
    path = tmp_path / "r.jsonl"
    path.write_text('{"format": "other", "version": 1}\n')
    assert busy.main(["--summary", str(path)]) == 1
    assert "is no file of busy.py --json: no tvm_ios.busy of version 1." in capsys.readouterr().err
    assert busy.main(["--networks", "mlp,lenet"]) == 1
    assert "There is no lenet; there are: mlp, mixer" in capsys.readouterr().err


# Networks


def test_the_networks() -> None:
    assert len(NETWORKS) == 20
    assert len(GRAPHS) == 7
    assert companion("mlp") == "mixer_b16_small"
    assert companion("xception") == "inception_v3"
    assert len(GRAPHS["mlp"]().graph.node) == 5
    assert len(GRAPHS["mixture"]().graph.node) == 46
    assert len(GRAPHS["decoder_step"]().graph.input) == 4


@pytest.mark.slow
@pytest.mark.parametrize("name", GRAPHS)
def test_answers_are_those_of_onnx_runtime(name: str, tmp_path: Path) -> None:
    ort = pytest.importorskip("onnxruntime")
    path = tmp_path / "m.onnx"
    onnx.save(GRAPHS[name](), path)
    inputs = random_inputs(path, 0)
    expected = ort.InferenceSession(path, providers=["CPUExecutionProvider"]).run(None, inputs)
    model = tvm_ios.compile(path, threads=WORKERS, search=False)
    found = model(*inputs.values())
    assert deviation(found if len(expected) > 1 else [found], expected) < 1e-5
    assert max(float(np.abs(array).max()) for array in expected) > 1e-3


def test_a_run_of_ours(tmp_path: Path, capsys) -> None:
    file = tmp_path / "r.jsonl"
    arguments = ["--networks", "mlp", "--conditions", "quiet,callers4", "--runtimes", "ours"]
    arguments += ["--threads", str(WORKERS), "--seconds", "0.02", "--slice", "0.01"]
    arguments += ["--folder", str(tmp_path / "kept"), "--json", str(file)]
    assert busy.main(arguments) == 0
    assert "| quiet     |" in capsys.readouterr().out
    record = read(file)
    assert [cell.key for cell in record.cells] == [
        ("mlp", name, "ours") for name in ("quiet", "callers4")
    ]
    for found in record.cells:
        assert found.failure is None
        assert found.calls >= 20
        assert found.error <= 1e-5
        assert 0 < found.median_ms <= found.p95_ms <= found.p99_ms
    assert busy.main(arguments) == 0  # there is nothing left to measure
    again = read(file)
    assert again.cells == record.cells
    assert len(again.runs) == 2


def test_a_runtime_that_fails_is_named(tmp_path: Path, monkeypatch, capsys) -> None:
    pytest.importorskip("onnxruntime")
    kept = tmp_path / "kept" / "mlp"
    kept.mkdir(parents=True)
    np.savez(kept / "expected.npz", np.full((1, 64), 9.0, "float32"))
    arguments = ["--networks", "mlp", "--conditions", "quiet", "--runtimes", "onnxruntime"]
    assert busy.main([*arguments, "--folder", str(kept.parent)]) == 0
    assert "- onnxruntime on mlp, quiet: wrong by" in capsys.readouterr().out


def test_conditions_and_runtimes_are_as_the_page_says() -> None:
    page = (ROOT / "docs" / "busy.md").read_text()
    assert all(f"`{name}`" in page for name in (*CONDITIONS, *RUNTIMES, *NETWORKS))
