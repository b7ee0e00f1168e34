# SPDX-License-Identifier: Apache-2.0
"""Files that packages of PyPI install, compiled as they are and called at several sizes.

Each is compiled once, without a search and without being told a size, and compared with ONNX
Runtime at the sizes of the catalogue, smaller, larger and odd ones.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import onnx
import onnxruntime

import tvm_ios
from machine import describe
from peer.contest import deviation
from real.catalogue import MODELS, RealModel, find
from real.files import draw_inputs
from real.sizes import at_other_sizes
from real.wheels import file_of
from tvm_ios.errors import TvmIosError

_WHEELS = Path(__file__).parents[1] / "build" / "real_models"


def main(argv: Sequence[str] | None = None) -> int:
    """Print what comes of each file; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--models", metavar="PACKAGE[/FILE],...", help="default: all")
    parser.add_argument("--wheels", type=Path, default=_WHEELS, metavar="FOLDER")
    parser.add_argument("--threads", type=int, default=1, metavar="N")
    options = parser.parse_args(argv)
    onnxruntime.set_default_logger_severity(4)
    names = options.models.split(",") if options.models else []
    models = [model for name in names for model in find(name)] if names else MODELS
    print(f"{describe().cpu}, {options.threads} threads")
    for model in models:
        print(model.key, flush=True)
        for line in _tried(model, options.wheels, options.threads):
            print(f"    {line}", flush=True)
    return 0


def _tried(model: RealModel, wheels: Path, threads: int) -> Iterator[str]:
    """Compile a file, and say what comes of each call."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        path.write_bytes(file_of(model, wheels))
        file, begin = onnx.load(path), time.perf_counter()
        try:
            compiled = tvm_ios.compile(path, search=False, threads=threads)
        except TvmIosError as error:
            yield f"refused: {error}"
            return
        yield f"compiled in {time.perf_counter() - begin:.1f} s"
        session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
        for sized in at_other_sizes(model, file):
            said = ", ".join(f"{name} {list(shape)}" for name, shape in sized.shapes.items())
            inputs = draw_inputs(sized, file)
            yield f"{said or 'as it is'}: {_called(compiled, session, inputs)}"


def _called(
    compiled: tvm_ios.CompiledModel,
    session: onnxruntime.InferenceSession,
    inputs: Mapping[str, np.ndarray],
) -> str:
    """Return how far the results are from those of ONNX Runtime, or who refuses the sizes."""
    try:
        expected = session.run(None, dict(inputs))
    except Exception:  # it has no type for sizes that do not fit
        expected = None
    try:
        results = compiled(*inputs.values())
    except (ValueError, IndexError) as error:
        return str(error) if expected else "both refuse"
    if expected is None:
        return "ONNX Runtime refuses"
    ours = results if isinstance(results, tuple) else (results,)
    return f"off by {deviation(ours, expected):.0e} of the largest number"


if __name__ == "__main__":
    sys.exit(main())
