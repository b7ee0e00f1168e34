# SPDX-License-Identifier: Apache-2.0
"""What half precision costs in accuracy, beside OpenVINO: errors over many random inputs.

The largest deviation of one input varies by a tenth and more from input to input, so that one does
not tell whose is larger. Here both compute the same inputs. An error is relative to the largest
output, as ``peers.py`` prints it; ONNX Runtime computes what the outputs should be, in float32 and
operator by operator as the file says.
"""

from __future__ import annotations

import math
import statistics
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnxruntime

import markdown
import tvm_ios
from command import parser, write
from peer.contest import deviation
from peer.models import Model, expand, load, random_inputs
from tvm_ios.target import available_cores

_INPUTS = 20
_NORMAL = 1.96  # standard deviations of a confidence of 95%

Compute = Callable[[Mapping[str, np.ndarray]], Sequence[np.ndarray]]


@dataclass(frozen=True)
class Errors:
    """Errors of one network, by input.

    Attributes
    ----------
    model : str
    ours, theirs : list of float
    """

    model: str
    ours: list[float]
    theirs: list[float]

    @property
    def ratio(self) -> tuple[float, float, float]:
        """Ours divided by theirs: the geometric mean, and the bounds of its 95% interval."""
        logarithms = [math.log(a / b) for a, b in zip(self.ours, self.theirs, strict=True)]
        mean = statistics.fmean(logarithms)
        spread = _NORMAL * statistics.stdev(logarithms) / math.sqrt(len(logarithms))
        return math.exp(mean), math.exp(mean - spread), math.exp(mean + spread)


def compare(name: str, precision: str, count: int, threads: int) -> Errors:
    """Compute ``count`` inputs of a network by ours, by OpenVINO and by ONNX Runtime."""
    with tempfile.TemporaryDirectory() as directory:
        model = load(name, 1, Path(directory))
        ours = _ours(model, precision, threads)
        theirs, reference = _openvino(model, threads), _reference(model)
        errors = Errors(model.name, [], [])
        for seed in range(count):
            inputs = random_inputs(model.path, seed)
            expected = reference(inputs)
            errors.ours.append(deviation(ours(inputs), expected))
            errors.theirs.append(deviation(theirs(inputs), expected))
    return errors


def _ours(model: Model, precision: str, threads: int) -> Compute:
    compiled = tvm_ios.compile(model.path, threads=threads, search=False, precision=precision)

    def compute(inputs: Mapping[str, np.ndarray]) -> Sequence[np.ndarray]:
        found = compiled(*(inputs[tensor.name] for tensor in compiled.inputs))
        return found if isinstance(found, tuple) else (found,)

    return compute


def _openvino(model: Model, threads: int) -> Compute:
    import openvino  # which tests do without

    settings = {"INFERENCE_NUM_THREADS": threads}
    compiled = openvino.Core().compile_model(model.path, "CPU", settings)
    return lambda inputs: list(compiled(dict(inputs)).values())


def _reference(model: Model) -> Compute:
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    providers = ["CPUExecutionProvider"]
    session = onnxruntime.InferenceSession(str(model.path), options, providers=providers)
    return lambda inputs: session.run(None, dict(inputs))


def table(results: Sequence[Errors]) -> str:
    """Return medians of the errors and their ratio, as Markdown."""
    rows = [
        [
            errors.model,
            f"{statistics.median(errors.ours):.4f}",
            f"{statistics.median(errors.theirs):.4f}",
            "{:.2f} ({:.2f} to {:.2f})".format(*errors.ratio),
        ]
        for errors in results
    ]
    return markdown.table(["model", "ours", "OpenVINO", "ours ÷ OpenVINO (95%)"], rows)


def main(argv: Sequence[str] | None = None) -> None:
    """Compare networks and print a table."""
    arguments = parser(__doc__, ["all"], "errors")
    arguments.add_argument("--precision", choices=("bf16", "auto"), default="auto")
    arguments.add_argument("--inputs", type=int, default=_INPUTS, metavar="N")
    args = arguments.parse_args(argv)
    threads = args.threads or available_cores()
    results: list[Errors] = []
    for name in [name for names in args.models for name in expand(names)]:
        results.append(compare(name, args.precision, args.inputs, threads))
        print(table(results[-1:]).splitlines()[-1], file=sys.stderr)
        write(args.json, precision=args.precision, networks=results)
    print(table(results))


if __name__ == "__main__":
    main()
