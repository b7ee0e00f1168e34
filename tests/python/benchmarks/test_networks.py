# SPDX-License-Identifier: Apache-2.0
"""The benchmarks measure what they say, and write what they find, whatever befalls them."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import tvm

import carry_over
import conv_kernels
import levels as hierarchy
import machine
import partitioning
import peak
import peers
import pool
import predictions
import replacements
import scaling
import search_cost
import search_time
from machine import Cache
from peer import contender, figures, models, record, report
from peer.contest import Contest, Plan
from peer.libraries import Search
from peer.process import ContenderError, run_tool
from peer.work import multiply_adds
from support.cli import SHAPE, onnx, save_branches
from support.database import branches
from support.networks import NATIVE, WORKERS
from tvm_ios import zoo
from tvm_ios.backend.cpu.core import core_of
from tvm_ios.backend.cpu.measure import memory_bandwidth, peak_flops
from tvm_ios.compiler.scheduler import Scheduler
from tvm_ios.errors import ModelError
from tvm_ios.schedule import ScheduledStage

TINY = machine.Machine(
    "a CPU", 2, 1, (Cache(1, 32 << 10, 1), Cache(2, 256 << 10, 1)), 1 << 30, "Linux"
)


# peak.py


def test_peak_reports_one_core_and_all(monkeypatch, capsys) -> None:
    monkeypatch.setattr(peak_flops, "STEPS", 500)
    monkeypatch.setattr(hierarchy, "_MEMORY", 1 << 20)
    monkeypatch.setattr(machine, "describe", lambda: TINY)
    peak.main(["--threads", str(WORKERS), "--json"])
    printed = json.loads(capsys.readouterr().out)
    assert printed["machine"]["cpu"] == "a CPU"
    assert printed["lanes"] == core_of(NATIVE).lanes
    assert printed["fma_gflops"].keys() == {"1", str(WORKERS)}
    levels = [(entry["level"], entry["threads"]) for entry in printed["bandwidth"]]
    assert levels == [(n, t) for t in (1, WORKERS) for n in ("L1", "L2", "memory")]
    for entry in printed["bandwidth"]:
        assert all(entry[kind] > 0 for kind in memory_bandwidth.KINDS)
    assert printed["pool"]["threads"] == WORKERS
    assert printed["pool"]["call"] > 0


@pytest.mark.slow
@pytest.mark.parametrize("threads", [1, WORKERS])
def test_kernels_are_compared_with_limits(threads: int, monkeypatch, capsys) -> None:
    monkeypatch.setattr(hierarchy, "_MEMORY", 1 << 20)
    monkeypatch.setattr(machine, "describe", lambda: TINY)
    conv_kernels.main(["resnext50_small", "--threads", str(threads), "--json"])
    found = json.loads(capsys.readouterr().out)["kernels"]
    assert {kernel["kind"] for kernel in found} == {"conv2d", "max_pool2d"}
    assert sum(k["count"] for k in found if k["kind"] == "conv2d") == 12
    for kernel in found:
        assert kernel["microseconds"] > 0
        assert kernel["least_microseconds"] > 0
    conv_kernels.main(["resnext50_small", "--threads", str(threads), "--kinds", "max_pool2d"])
    assert "all max_pool2d of resnext50_small" in capsys.readouterr().out


@pytest.mark.slow
def test_replacements_times_every_method(capsys) -> None:
    replacements.main(["bert_tiny", "--threads", str(WORKERS), "--max-num-groups", "1"])
    (network,) = json.loads(capsys.readouterr().out)["networks"]
    assert network["milliseconds"].keys() == {"sequential", "TS", "PS", "TS+PS"}
    assert all(value > 0 for value in network["milliseconds"].values())
    assert network["replacements"]["PS"] == []


@pytest.mark.slow
def test_searches_are_compared_by_cost_and_result(tmp_path: Path, monkeypatch, capsys) -> None:
    save_branches(tmp_path / "m.onnx")
    monkeypatch.setattr(search_cost, "COVERAGES", (0.7,))
    monkeypatch.setattr(search_cost, "ROUNDS", 1)
    files = ["--json", str(tmp_path / "points.json")]
    search_cost.main([str(tmp_path / "m.onnx"), "--limits", "1,1 2,2", *files])
    shown = capsys.readouterr().out
    assert "learned, coverage 0.7" in shown
    (points,) = json.loads((tmp_path / "points.json").read_text())["networks"].values()
    kinds = [point["kind"] for point in points]
    assert kinds == ["learned", "measured", "measured", "baseline", "baseline"]
    assert all(point["latency_ms"] > 0 for point in points)
    assert points[1]["measurements"] <= points[2]["measurements"]
    picture = tmp_path / "points.svg"
    search_cost.main(["--table", str(tmp_path / "points.json"), "--draw", str(picture)])
    assert capsys.readouterr().out == shown
    assert "</svg>" in picture.read_text()


@pytest.mark.slow
def test_a_second_search_measures_nothing(tmp_path: Path, capsys) -> None:
    save_branches(tmp_path / "m.onnx")
    search_time.main([str(tmp_path / "m.onnx"), "--json", str(tmp_path / "times.json")])
    assert "warm s" in capsys.readouterr().out
    (found,) = json.loads((tmp_path / "times.json").read_text())["searches"].values()
    assert found["cold"]["measurements"] > 0 == found["warm"]["measurements"]
    assert found["cold"]["stages"] == found["warm"]["stages"]


@pytest.mark.slow
def test_predictions_are_compared_with_compiled_schedules(tmp_path: Path, capsys) -> None:
    save_branches(tmp_path / "m.onnx")
    file = tmp_path / "searches.json"
    flags = ["--searches", "2", "--neighbour", "--json", str(file)]
    predictions.main([str(tmp_path / "m.onnx"), *flags])
    assert "measured gain" in capsys.readouterr().out
    (searches,) = json.loads(file.read_text())["searches"].values()
    assert len(searches) == 2
    assert all(s["predicted_ms"] > 0 and s["measured_ms"] > 0 for s in searches)


@pytest.mark.slow
def test_partitionings_are_compared(tmp_path: Path, capsys) -> None:
    save_branches(tmp_path / "m.onnx")
    file = tmp_path / "partitionings.json"
    threads = ["--threads", str(WORKERS)]
    partitioning.main([str(tmp_path / "m.onnx"), *threads, "--json", str(file)])
    assert "by rows" in capsys.readouterr().out
    (found,) = json.loads(file.read_text())["partitionings"].values()
    assert found["by_rows"] <= found["operators"]
    assert found["tiles_ms"] > 0 < found["preferred_ms"]


def test_strips_become_tiles() -> None:
    stages = [ScheduledStage(((name,),), partitioning=name) for name in ("strips", "tiles")]
    schedule = replace(Scheduler.prepare(branches(), NATIVE).unsearched(), stages=tuple(stages))
    assert [s.partitioning for s in partitioning.by_tiles(schedule).stages] == ["tiles", "tiles"]


def test_what_failed_has_no_ratio(capsys) -> None:
    results = {"m": {1: record.Result("m", failure="no memory")}}
    scaling.show(results, "onnxruntime")
    row = capsys.readouterr().out.splitlines()[-1]
    assert set(row.replace(" ", "").strip("|").split("|")[2:]) == {"failed"}


@pytest.mark.slow
def test_networks_are_timed_on_each_number_of_workers(tmp_path: Path, capsys) -> None:
    save_branches(tmp_path / "m.onnx")
    file = tmp_path / "scaling.json"
    flags = ["--threads", "2", "--rounds", "2", "--max-num-groups", "1", "--json", str(file)]
    scaling.main([str(tmp_path / "m.onnx"), *flags])
    assert "(1.00x)" in capsys.readouterr().out
    (by_workers,) = json.loads(file.read_text())["scaling"].values()
    assert by_workers.keys() == {"1", "2"}
    for result in by_workers.values():
        assert all(entry["median_ms"] > 0 for entry in result["entries"].values())


def test_scaling_ends_with_all_cores() -> None:
    counts = {n: scaling.worker_counts(n) for n in (1, 2, 6, 8)}
    assert counts == {1: [1], 2: [1, 2], 6: [1, 2, 4, 6], 8: [1, 2, 4, 8]}


@pytest.mark.slow
def test_a_network_is_searched_alone_and_after_others(tmp_path: Path, capsys) -> None:
    save_branches(tmp_path / "m.onnx")
    file = str(tmp_path / "searches.json")
    carry_over.main([str(tmp_path / "m.onnx"), "zoo:bert_tiny", "--json", file])
    assert "after them" in capsys.readouterr().out
    first, second = json.loads(Path(file).read_text())["searches"].values()
    for found in (first, second):
        assert found["alone"]["measurements"] > 0
        assert found["after the others"]["latency_ms"] > 0


def test_peak_prints_tables(capsys) -> None:
    bandwidth = memory_bandwidth.Bandwidth("L1", 1, 16 << 10, 3.0, 2.0, 1.0)
    costs = pool.PoolCosts(2, 0.01, 2.5, 1.25)
    gflops = {1: 100.0, 2: 199.0}, {2: 390.0}
    peak.show(peak.Peak(TINY, "llvm", 16, *gflops, [bandwidth], costs))
    printed = capsys.readouterr().out
    for text in ("a CPU", "L2 256 kB", "1 thread ", "199.0", "390.0", "16 kB", "1.25"):
        assert text in printed


@pytest.mark.parametrize("workers", [1, 2])
def test_streams_move_what_they_count(workers: int) -> None:
    lanes, steps, rounds = core_of(NATIVE).lanes, 3, 2
    step = 16 * lanes
    shape = (workers, steps * step)
    functions = {
        kind: memory_bandwidth.stream_function(kind, shape, lanes)
        for kind in memory_bandwidth.KINDS
    }
    module = tvm.compile(tvm.IRModule(functions), target=NATIVE).mod
    values = np.random.default_rng(0).standard_normal(shape).astype("float32")
    results = {}
    for kind in memory_bandwidth.KINDS:
        a, b = tvm.runtime.tensor(values), tvm.runtime.tensor(np.full(shape, np.nan, "float32"))
        module[kind](a, b, steps, rounds)
        results[kind] = a.numpy(), b.numpy()
    last = rounds - 1
    np.testing.assert_array_equal(results["write"][0], np.full(shape, last))
    np.testing.assert_array_equal(results["copy"][1], last * values)
    sums = rounds * values.reshape(workers, steps, step).sum(1)
    np.testing.assert_allclose(results["read"][1][:, :step], sums, rtol=1e-5, atol=1e-5)


def test_levels_leave_out_a_cache_no_larger_than_the_one_before() -> None:
    caches = (
        machine.Cache(1, 32 << 10, 1),
        machine.Cache(2, 1 << 20, 1),
        machine.Cache(3, 8 << 20, 8),
    )
    assert [level.name for level in hierarchy.levels(caches, 1)] == ["L1", "L2", "L3", "memory"]
    assert [level.name for level in hierarchy.levels(caches, 8)] == ["L1", "L2", "memory"]


# What peers.py counts with


def test_multiply_adds_of_convolutions_and_products() -> None:
    helper, fp32 = onnx.helper, onnx.TensorProto.FLOAT
    make, value = helper.make_node, helper.make_tensor_value_info
    weights = {"w": (6, 2, 3, 3), "m": (6, 5), "g": (7, 5)}
    nodes = [
        make("Conv", ["x", "w"], ["c"], group=2, strides=[2, 2]),  # 4x9x9 -> 6x4x4
        make("GlobalAveragePool", ["c"], ["p"]),
        make("Flatten", ["p"], ["f"]),
        make("MatMul", ["f", "m"], ["y"]),
        make("Gemm", ["y", "g"], ["z"], transB=1),
    ]
    tensors = [helper.make_tensor(n, fp32, s, np.zeros(s).ravel()) for n, s in weights.items()]
    inputs, outputs = [value("x", fp32, (3, 4, 9, 9))], [value("z", fp32, (3, 7))]
    graph = helper.make_graph(nodes, "g", inputs, outputs, tensors)
    expected = 3 * 6 * 4 * 4 * (2 * 3 * 3) + 3 * 5 * 6 + 3 * 7 * 5
    assert multiply_adds(helper.make_model(graph)) == expected


def test_ratios_are_taken_within_a_round() -> None:
    drift = np.array([1.0, 5.0, 2.0, 3.0])
    steady = figures.ratio(3 * drift, 2 * drift)
    np.testing.assert_allclose([steady.median, steady.low, steady.high], 1.5)
    noisy = figures.ratio([1.0, 1.1, 1.3, 1.2, 4.0], [1.0] * 5)
    assert noisy.median == pytest.approx(1.2)
    assert noisy.low < noisy.median < noisy.high
    both = figures.geometric_mean([(4 * drift, drift), (drift, drift)])
    assert both.median == pytest.approx(2.0)


def test_a_file_with_an_open_batch_gets_one(tmp_path: Path) -> None:
    save_branches(tmp_path / "branches.onnx", batch="N")
    model = models.load(str(tmp_path / "branches.onnx"), 2, tmp_path)
    assert model.name == "branches"
    assert {name: array.shape for name, array in model.inputs.items()} == {"image": (2, *SHAPE[1:])}
    pixels, channels = 24 * 24, 16
    taps = 3 * 9 + channels * (1 + 9 + 25)
    assert model.multiply_adds == 2 * pixels * channels * taps
    with pytest.raises(ModelError):
        models.load(str(tmp_path / "missing.onnx"), 1, tmp_path)


def test_all_networks_are_those_of_the_papers() -> None:
    everything = models.expand("all")
    assert {"squeezenet", "inception_v3"} <= set(everything) <= set(zoo.names())
    assert not {"inception_v3_small", "bert_tiny"} & set(everything)


# The contest

CROOKED = {
    "wrong": "return Runner(lambda: None, lambda _: [np.zeros((1, 48), 'float32')])",
    "shape": "return Runner(lambda: None, lambda _: [np.zeros((2, 48), 'float32')])",
    "raises": "raise ValueError('no such operator')",
    "missing": "import a_package_that_nobody_has",
    "dies": "import os, itertools; turns = itertools.count()\n"
    "    from peer.onnx_runtime import prepare as honest\n"
    "    runner = honest(task)\n"
    "    return Runner(lambda: os._exit(3) if next(turns) > 4 else runner.run(), runner.arrays)",
}
FAILURES = {
    "wrong": "wrong by 1.0e+00 of the largest output",
    "shape": "its outputs have other shapes",
    "raises": "ValueError: no such operator",
    "missing": "a_package_that_nobody_has is not installed; pip install 'tvm-ios[bench]'",
    "dies": "its process ended with status 3",
}


@pytest.mark.slow
def test_who_fails_is_reported_and_the_others_go_on(tmp_path: Path, monkeypatch) -> None:
    for name, body in CROOKED.items():
        header = "import numpy as np\nfrom peer.contender import Runner\n"
        module = f"{header}def prepare(task):\n    {body}\n"
        (tmp_path / f"crooked_{name}.py").write_text(module)
        entry = contender.Contender(name, f"crooked_{name}", (), "")
        monkeypatch.setitem(contender.CONTENDERS, name, entry)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    save_branches(tmp_path / "branches.onnx")
    model = models.load(str(tmp_path / "branches.onnx"), 1, tmp_path)
    said: list[str] = []
    plan = Plan([*CROOKED, "onnxruntime"], Search(WORKERS, 1, 1), 2, 0.01, said.append)
    result = Contest(model, plan, tmp_path).run()
    honest = result.entries.pop("onnxruntime")
    assert {name: entry.failure for name, entry in result.entries.items()} == FAILURES
    assert honest.failure is None
    assert len(honest.rounds_ms) == 2
    assert honest.peak_mb > honest.start_mb > 0
    assert honest.share_of_peak > 0
    assert honest.error < 1e-5
    assert any("dies failed" in text for text in said)


def test_what_the_command_line_refuses_is_the_reason(tmp_path: Path) -> None:
    command = ["tvm_ios", "compile", "missing.onnx", "-o", str(tmp_path / "x.so")]
    with pytest.raises(ContenderError, match=r"^There is no model missing\.onnx; give"):
        run_tool(command, tmp_path / "log")


@pytest.mark.slow
def test_ours_beside_onnx_runtime(tmp_path: Path, capsys) -> None:
    save_branches(tmp_path / "branches.onnx")
    file = tmp_path / "figures.json"
    status = peers.main([
        "--models", f"{tmp_path / 'branches.onnx'},no_such_network", "--threads", str(WORKERS),
        "--peers", "sequential,scheduled,onnxruntime", "--rounds", "2", "--window", "0.01",
        "--max-num-groups", "2", "--max-group-size", "1", "--json", str(file),
    ])  # fmt: skip
    printed = capsys.readouterr().out
    assert status == 0
    written = json.loads(file.read_text())
    assert written["threads"] == WORKERS
    assert {"tvm-ios", "apache-tvm", "onnxruntime"} <= written["versions"].keys()
    branches, unknown = written["results"]
    assert "no_such_network" in unknown["failure"]
    for name, entry in branches["entries"].items():
        assert entry["failure"] is None, f"{name}: {entry['failure']}"
        assert entry["error"] < 1e-5
        assert entry["gflops"] > 0
    assert branches["compiled"]["scheduled"]["threads"] == WORKERS
    ratios = written["ratios"]["branches"]
    assert ratios["best_peer"] == "onnxruntime"
    assert written["best_peer_over_ours"] == pytest.approx(ratios["over_ours"]["onnxruntime"])
    assert str(tmp_path) not in file.read_text()
    # The table is made from the file alone.
    assert peers.main(["--table", str(file)]) == 0
    assert capsys.readouterr().out == printed


def test_a_record_reads_back() -> None:
    entry = record.Entry(rounds_ms=[2.0, 2.2], median_ms=2.1, peak_mb=50.0)
    own = record.Entry(rounds_ms=[1.0, 1.1], median_ms=1.05, peak_mb=40.0, share_of_peak=0.9)
    failed = record.Entry(failure="it is not there")
    entries = {"scheduled": own, "onnxruntime": entry, "openvino": failed}
    comparison = record.Comparison(
        "2026-01-01T00:00:00", {"cpu": "a CPU"}, 2, 1, {"rounds": 2}, {}, {},
        [record.Result("net", multiply_adds=10, peak_gflops=1.0, entries=entries)],
    )  # fmt: skip
    read = record.from_json(json.loads(json.dumps(comparison.to_json())))
    assert read == comparison
    text = report.render(read)
    assert "2.000 (2.000–2.000)" in text
    assert "- OpenVINO on net: it is not there" in text
    with pytest.raises(ValueError, match="of version 1"):
        record.from_json({"format": "tvm_ios.schedule"})


def test_mistakes_are_told_in_a_sentence(tmp_path: Path, capsys) -> None:
    damaged, nowhere = tmp_path / "x.json", tmp_path / "no" / "x.json"
    damaged.write_text("[1]")
    told = {
        "There is no contender tensorrt; there are: ours, ": ["--peers", "ours,tensorrt"],
        "is no file of peers.py --json": ["--table", str(damaged)],
        "No such file or directory": ["--models", "squeezenet", "--json", str(nowhere)],
    }
    for sentence, arguments in told.items():
        assert peers.main(arguments) == 1
        error = capsys.readouterr().err
        assert error.startswith("error: ")
        assert sentence in error


def test_the_fastest_runs_are_compared_across_peers() -> None:
    entries = {
        "scheduled": record.Entry(fastest_ms=4.0),
        "sequential": record.Entry(fastest_ms=1.0),
        "onnxruntime": record.Entry(fastest_ms=6.0),
        "openvino": record.Entry(fastest_ms=5.0),
        "torch": record.Entry(failure="it failed"),
    }
    assert record.Result("net", entries=entries).fastest_over_ours() == 1.25
    del entries["openvino"], entries["onnxruntime"]
    assert record.Result("net", entries=entries).fastest_over_ours() is None
