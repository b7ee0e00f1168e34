# SPDX-License-Identifier: Apache-2.0
"""Time public models that leave sizes open: for any sizes, and compiled for those of each call.

Each model is exported with an open batch and open sizes of images, or numbers of tokens. A library
for any sizes, one that is compiled for the sizes alone, ONNX Runtime and OpenVINO, which read the
same file, take turns, each in its own process; nothing is searched.
"""

from __future__ import annotations

import random
import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from markdown import table
from peer.contender import CONTENDERS, Contender
from peer.contest import deviation
from peer.process import Assignment, ContenderError, Worker, run_tool
from public.catalogue import INPUT, find
from survey import export_open, run

_MODELS = (
    "squeezenet1_0", "resnet50", "mobilenet_v2", "mobilenet_v3_large", "mnasnet1_0",
    "shufflenet_v2_x1_0", "googlenet", "densenet121", "efficientnet_b0", "regnet_x_400mf",
    "regnet_y_400mf", "darknet53", "lcnet_050", "repvgg_a0", "ese_vovnet19b_dw",
    "bert", "distilbert", "albert", "electra", "wav2vec2",
)  # fmt: skip
_IMAGES = ((1, 3, 128, 128), (1, 3, 224, 224), (1, 3, 205, 311), (3, 3, 160, 160), (5, 3, 96, 96))
_TOKENS = ((1, 16), (1, 128), (1, 300), (3, 100), (5, 33), (17, 12))
_SAMPLES = ((1, 8000), (1, 16000), (3, 5000))
_SHAPES = {"text": _TOKENS, "audio": _SAMPLES}
_HEAD = """# Public models of any sizes

Models of torchvision, timm and transformers, exported with an open batch and open sizes of images,
tokens or samples. *Any* is a library for any sizes, *fixed* one that is compiled for the sizes of
the row; ONNX Runtime and OpenVINO read the same file. Nothing is searched. Milliseconds are medians
of interleaved rounds, each contender in a process of its own. *Error* is the largest difference of
ours from ONNX Runtime, relative to the largest number. The last columns are the seconds of
`tvm-ios compile --no-search`. `benchmarks/any_shape.py` writes this page.
"""
_ROUNDS, _WINDOW = 5, 0.2
_OURS = {"any": "for any sizes", "fixed": "for these alone"}
_PEERS = ("onnxruntime", "openvino")


def _draw(family: str, shape: Sequence[int]) -> np.ndarray:
    source = np.random.default_rng(0)
    if family == "text":
        return source.integers(0, 1000, shape)
    return source.standard_normal(shape).astype("float32")


def _compile(path: Path, library: Path, threads: int, *options: str) -> float:
    """Compile without a search, and return the seconds that it took."""
    command = ["tvm_ios", "compile", str(path), "-o", str(library), "--no-search", *options]
    begin = time.perf_counter()
    run_tool([*command, "--threads", str(threads)], library.with_suffix(".log"))
    return time.perf_counter() - begin


def _try_model(name: str, folder: Path, threads: int) -> Iterator[dict[str, Any]]:
    """Yield what was found out for each shape of a model."""
    file = folder / "model.onnx"
    export_open(name, file)
    family = find(name).family
    inputs = [_draw(family, shape) for shape in _SHAPES.get(family, _IMAGES)]
    yield from try_shapes(file, inputs, threads, folder)


def try_shapes(
    file: Path, inputs: Sequence[np.ndarray], threads: int, folder: Path
) -> Iterator[dict[str, Any]]:
    """Yield what was found out for each input of a file, whose input is called ``INPUT``."""
    general, fixed = folder / "any.so", folder / "fixed.so"
    seconds = _compile(file, general, threads)
    for array in inputs:
        np.savez(folder / "inputs.npz", **{INPUT: array})
        given = f"{INPUT}:[{','.join(map(str, array.shape))}]"
        own = _compile(file, fixed, threads, "--input-shapes", given)
        ours = CONTENDERS["sequential"]
        contenders = {"any": (ours, general), "fixed": (ours, fixed)}
        contenders |= {peer: (CONTENDERS[peer], file) for peer in _PEERS}
        found = _take_turns(contenders, threads, folder)
        yield {"shape": array.shape, "any_s": seconds, "fixed_s": own, **found}


def _take_turns(
    contenders: dict[str, tuple[Contender, Path]], threads: int, folder: Path
) -> dict[str, Any]:
    """Return the milliseconds of contenders, and how far ours are from ONNX Runtime."""
    workers: dict[str, Worker] = {}
    found: dict[str, Any] = {}
    try:
        for name, (contender, path) in contenders.items():
            files = folder / "inputs.npz", folder / f"{name}.npz"
            task = Assignment(path, *files, threads, _WINDOW)
            try:
                workers[name] = Worker(contender, task, folder / f"{name}.stderr")
            except ContenderError as error:
                found[f"{name}_failure"] = str(error)
        times: dict[str, list[float]] = {name: [] for name in workers}
        order = random.Random(0)
        for _ in range(_ROUNDS):
            for name in order.sample(list(workers), len(workers)):
                times[name].append(1e3 * workers[name].window()["median_s"])
    finally:
        for worker in workers.values():
            worker.close()
    right = _arrays(folder / "onnxruntime.npz")
    found["error"] = max(deviation(_arrays(folder / f"{name}.npz"), right) for name in _OURS)
    return found | {name: statistics.median(own) for name, own in times.items()}


def _arrays(path: Path) -> list[np.ndarray]:
    with np.load(path) as file:
        return [file[key] for key in file.files]


def _render(record: dict[str, Any]) -> str:
    """Return the page of a record."""
    header = ["model", "sizes", "any, ms", "fixed, ms", "ONNX Runtime", "OpenVINO", "any ÷ fixed"]
    header += ["best ÷ any", "error", "any, s", "fixed, s"]
    rows, ratios = [], []
    for row in record["rows"]:
        if "any" not in row:
            rows.append([row["model"], row["failure"], *[""] * (len(header) - 2)])
            continue
        peers = [row[name] for name in _PEERS if name in row]
        ratio, peer = row["any"] / row["fixed"], min(peers) / row["any"]
        ratios.append((ratio, peer, row["any_s"] / row["fixed_s"]))
        times = [f"{row[n]:.3g}" if n in row else "–" for n in (*_OURS, *_PEERS)]
        sizes = "x".join(map(str, row["shape"]))
        seconds = [f"{row[name]:.1f}" for name in ("any_s", "fixed_s")]
        figures = [f"{ratio:.2f}", f"{peer:.2f}", f"{row['error']:.0e}", *seconds]
        rows.append([row["model"], sizes, *times, *figures])
    any_fixed, best, compiling = (list(column) for column in zip(*ratios, strict=True))
    return "\n".join(
        (
            _HEAD,
            f"{record['cpu']}, {record['threads']} threads, {record['date']}.",
            "",
            f"- Any ÷ fixed: {statistics.geometric_mean(any_fixed):.2f} in geometric mean, from "
            f"{min(any_fixed):.2f} to {max(any_fixed):.2f}, over {len(ratios)} shapes of "
            f"{len({row['model'] for row in record['rows']})} models.",
            f"- Best of the others ÷ any: {statistics.geometric_mean(best):.2f} in geometric mean, "
            f"from {min(best):.2f} to {max(best):.2f}.",
            f"- Compile time, any ÷ fixed: {statistics.geometric_mean(compiling):.2f}.",
            "",
            table(header, rows),
            "",
        )
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Try models, and write the page; returns the exit status."""
    return run(__doc__.split("\n")[0], _MODELS, _try_model, _render, argv)


if __name__ == "__main__":
    sys.exit(main())
