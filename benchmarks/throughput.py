# SPDX-License-Identifier: Apache-2.0
"""Count the samples a second of public models, by ``tvm-ios bench --throughput``.

Each model is exported with an open batch. Ours, ONNX Runtime and OpenVINO are called in several
ways with batches of 1, 8 and 32; all take turns, each in processes of its own.
"""

from __future__ import annotations

import json
import statistics
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from markdown import table
from peer.process import run_tool
from public.catalogue import find
from survey import export_open, run
from tvm_ios.throughput.ways import OURS, TITLES, Way

_MODELS = (
    "squeezenet1_0", "googlenet", "resnet50", "mobilenet_v3_large", "efficientnet_b0",
    "densenet121", "regnet_y_400mf", "shufflenet_v2_x1_0", "repvgg_a0", "bert", "distilbert",
    "wav2vec2",
)  # fmt: skip
_BATCHES = (1, 8, 32)
_SIZES = {"text": {"tokens": 128}, "audio": {"tokens": 16000}}
_IMAGE = {"height": 224, "width": 224}
_HEAD = """# Throughput

Samples a second of public models, exported to ONNX with an open batch: images of 224x224, texts of
128 tokens, one second of sound. *Best* is the fastest of all ways to ask for them: one caller,
several callers of one library, and a caller for each core whose calls have one thread; one by one
and in batches of 8 and 32. ONNX Runtime is called in the same ways, OpenVINO by its hint for
throughput. *Ratio* is ours divided by the best of the others, within rounds; above 1 ours is
faster. The other columns are the best ways of one batch size, ours beside the best of the others.
Nothing is searched. Float32. `benchmarks/throughput.py` writes this page.
"""


def _try_model(name: str, folder: Path, threads: int) -> Iterator[dict[str, Any]]:
    """Yield what ``tvm-ios bench`` says of a model."""
    file = folder / "model.onnx"
    export_open(name, file)
    sizes = _SIZES.get(find(name).family, _IMAGE)
    options = [f"--dim={dimension}={size}" for dimension, size in sizes.items()]
    options += ["--batch-sizes", ",".join(map(str, _BATCHES)), "--threads", str(threads)]
    command = ["tvm_ios", "bench", str(file), "--throughput", "--quiet", "--json", *options]
    found = json.loads(run_tool(command, folder / "log"))
    yield {key: value for key, value in found.items() if key != "model"}  # the file's name


def _render(record: dict[str, Any]) -> str:
    """Return the page of a record."""
    header = ["model", "best way of ours", "samples/s", "best of the others", "samples/s", "ratio"]
    header += [f"batch {batch}" for batch in _BATCHES]
    rows, ratios = [], []
    for row in record["rows"]:
        if "failure" in row:
            rows.append([row["model"], row["failure"], *[""] * (len(header) - 2)])
            continue
        ratios.append(row["ratio"])
        cells = [row["model"]]
        for best in (row["best"], row["best_peer"]):
            way = Way(*(best[key] for key in ("system", "threads", "callers", "batch")))
            title = str(way) if way.system == OURS else f"{TITLES[way.system]}, {way}"
            cells += [title, f"{best['samples_per_s']:.4g}"]
        rows.append([*cells, f"{row['ratio']:.2f}", *(_at(row, batch) for batch in _BATCHES)])
    return "\n".join(
        (
            _HEAD,
            f"{record['cpu']}, {record['threads']} threads, {record['date']}.",
            "",
            f"Ours ÷ the best of the others: {statistics.geometric_mean(ratios):.2f} in geometric "
            f"mean, from {min(ratios):.2f} to {max(ratios):.2f}, over {len(ratios)} models.",
            "",
            table(header, rows),
            "",
        )
    )


def _at(row: dict[str, Any], batch: int) -> str:
    """Return the samples a second of the best ways with a batch size: ours, and of the others."""
    rates = {True: [0.0], False: [0.0]}
    for way in row["ways"]:
        if way["batch"] == batch:
            rates[way["system"] == OURS].append(way["samples_per_s"])
    return f"{max(rates[True]):.4g} / {max(rates[False]):.4g}"


def main(argv: Sequence[str] | None = None) -> int:
    """Try models, and write the page; returns the exit status."""
    return run(__doc__.split("\n")[0], _MODELS, _try_model, _render, argv)


if __name__ == "__main__":
    sys.exit(main())
