# SPDX-License-Identifier: Apache-2.0
"""Time a network that leaves dimensions open: for any sizes, and for those of each call.

The function for any sizes, one that is compiled for the sizes alone and ONNX Runtime take turns;
nothing is searched. Times are medians of one run.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import onnxruntime

import tvm_ios
from machine import describe
from markdown import table
from tvm_ios.cli.options import input_shapes
from tvm_ios.errors import TvmIosError

Shapes = Mapping[str, tuple[int, ...]]
Run = Callable[[], object]

_DTYPES = {"tensor(float)": "float32", "tensor(int64)": "int64", "tensor(int32)": "int32"}


def _session(path: str, threads: int) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def _draw(session: onnxruntime.InferenceSession, shapes: Shapes) -> dict[str, np.ndarray]:
    """Draw inputs: normal numbers, and whole ones of 0 and 1."""
    random = np.random.default_rng(0)
    drawn = {}
    for info in session.get_inputs():
        shape = shapes.get(info.name, shapes.get("", tuple(info.shape)))
        dtype = _DTYPES[info.type]
        whole = dtype.startswith("int")
        numbers = random.integers(0, 2, shape) if whole else random.standard_normal(shape)
        drawn[info.name] = np.asarray(numbers, dtype)
    return drawn


def _difference(ours: object, theirs: Sequence[np.ndarray]) -> float:
    """Return the largest difference of an output, in shares of its largest element."""
    found = ours if isinstance(ours, tuple) else (ours,)
    pairs = zip(found, theirs, strict=True)
    return max(float(np.abs(a - b).max() / max(np.abs(b).max(), 1e-12)) for a, b in pairs)


def _medians(runs: Sequence[Run], repeat: int) -> list[float]:
    """Return the milliseconds of functions that take turns."""
    times: list[list[float]] = [[] for _ in runs]
    for _ in range(repeat):
        for own, run in zip(times, runs, strict=True):
            begin = time.perf_counter()
            run()
            own.append(time.perf_counter() - begin)
    return [1e3 * statistics.median(own) for own in times]


def main(argv: Sequence[str] | None = None) -> int:
    """Print the table; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("model", metavar="MODEL", help="an ONNX file that leaves dimensions open")
    parser.add_argument(
        "--shapes", type=input_shapes, action="append", required=True, metavar='"NAME:[N,...],..."'
    )
    parser.add_argument("--threads", type=int, default=1, metavar="N")
    parser.add_argument("--repeat", type=int, default=51, metavar="N", help="default: %(default)s")
    options = parser.parse_args(argv)
    session = _session(options.model, options.threads)
    rows, ratios = [], []
    try:
        given = {"search": False, "threads": options.threads}
        general = tvm_ios.compile(options.model, **given)
        for shapes in options.shapes:
            special = tvm_ios.compile(options.model, input_shapes=shapes, **given)
            feeds = _draw(session, shapes)
            arrays = list(feeds.values())
            error = _difference(general(*arrays), session.run(None, feeds))
            runs: list[Run] = [
                lambda a=arrays: general(*a),
                lambda m=special, a=arrays: m(*a),
                lambda f=feeds: session.run(None, f),
            ]
            ours, fixed, theirs = _medians(runs, options.repeat)
            ratios.append((ours / fixed, theirs / ours))
            sizes = ", ".join(str(list(shape)) for shape in shapes.values())
            times = (f"{t:.3f}" for t in (ours, fixed, theirs))
            rows.append([sizes, *times, *(f"{r:.2f}" for r in ratios[-1]), f"{error:.1e}"])
    except TvmIosError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    means = [statistics.geometric_mean(column) for column in zip(*ratios, strict=True)]
    rows.append(["geometric mean", "", "", "", *(f"{mean:.2f}" for mean in means), ""])
    print(f"{describe().cpu}, {options.threads} threads\n")
    header = ["sizes", "any, ms", "fixed, ms", "ONNX Runtime, ms", "any/fixed", "ORT/any", "error"]
    print(table(header, rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
