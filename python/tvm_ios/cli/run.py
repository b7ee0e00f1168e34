# SPDX-License-Identifier: Apache-2.0
"""``tvm-ios run``: a compiled model on given or made-up inputs."""

from __future__ import annotations

import argparse
import contextlib
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

import tvm_ios_runtime
from tvm_ios_runtime import Model, TensorInfo
from tvm_ios_runtime.helpers import HelperCounts, helper_counts

from ..backend.registry import kind_of
from ..compiler import artifact
from ..support.errors import ModelError, OptionError, device_errors
from ..support.files import replacing
from ..support.text import last_line
from . import output
from .inputs import read_inputs
from .options import add_common, add_device, add_seed, whole

_EPILOG = """\
examples:
  tvm-ios run model.so --print-time --repeat 20
  tvm-ios run model.so -i in.npz -o out.npz
"""


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "run",
        help="run a compiled model",
        description="Run a library that 'tvm-ios compile' wrote, on given or generated inputs.",
        epilog=_EPILOG,
    )
    parser.add_argument("library", metavar="LIBRARY", help="library that 'tvm-ios compile' wrote")
    parser.add_argument(
        "-i", "--inputs", metavar="FILE", help="read the inputs by name from this .npz file"
    )
    parser.add_argument(
        "-o", "--outputs", metavar="FILE", help="write output_0, output_1, ... to this .npz file"
    )
    parser.add_argument(
        "--fill-mode",
        choices=("random", "ones", "zeros"),
        default="random",
        help="values of the inputs, if no file gives them (default: random)",
    )
    parser.add_argument(
        "--print-time", action="store_true", help="time the model and print the statistics"
    )
    parser.add_argument(
        "--repeat", type=whole(1), default=10, metavar="N", help="number of timings (default: 10)"
    )
    parser.add_argument(
        "--number",
        type=whole(1),
        default=1,
        metavar="N",
        help="number of runs in a timing (default: 1)",
    )
    parser.add_argument(
        "--device",
        choices=("cpu", "cuda"),
        help="device to run on; it must be the one that the library was compiled for (default)",
    )
    add_device(parser)
    add_seed(parser)
    add_common(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> None:
    """Run the model, write its outputs and time it, as asked for."""
    if args.outputs and Path(args.outputs).suffix != ".npz":
        raise OptionError(f"The outputs must be named NAME.npz, got {args.outputs}.")
    model = artifact.load(args.library, args.device_id)
    _check_device(args.device, model)
    if args.inputs:
        arrays = read_inputs(args.inputs, model.inputs, any_shape=len(model.signatures) > 1)
    else:
        random = np.random.default_rng(args.seed)
        arrays = [_fill(info, args.fill_mode, random) for info in model.signatures[0].inputs]
    inputs = list(map(_in_place, arrays))
    with device_errors(args.device_id), _input_errors(args):
        named = {info.name: r for info, r in zip(model.outputs, model(*inputs), strict=True)}
        before = helper_counts()
        times = _time(model, inputs, args) if args.print_time else None
        helped = HelperCounts(*np.subtract(helper_counts(), before).tolist())
    if args.outputs:
        with replacing(args.outputs) as (draft,):
            np.savez(draft, **named)
    _report(args, named, times, helped)


@contextlib.contextmanager
def _input_errors(args: argparse.Namespace) -> Iterator[None]:
    """Raise ModelError for inputs that the model does not take, within a ``with``.

    They have shapes that the library does not serve, or indices out of bounds.
    """
    try:
        yield
    except (IndexError, ValueError) as error:
        given = args.inputs or f"The inputs of --fill-mode {args.fill_mode}"
        raise ModelError(f"{given}: {last_line(error)}") from error


def _check_device(device: str | None, model: Model) -> None:
    """Raise OptionError if the library is for another kind of device than the user says."""
    made_for = kind_of(model.metadata["target"]).device
    if device not in (None, made_for):
        raise OptionError(
            f"The library was compiled for --device {made_for}; compile it again for {device}."
        )


def _fill(info: TensorInfo, mode: str, random: np.random.Generator) -> np.ndarray:
    """Ones, zeros, or normal floats and integers of 0 and 1."""
    shape = [size for size in info.shape if size is not None]
    assert len(shape) == len(info.shape), "an input's shape is known"
    if mode != "random":
        return np.full(shape, mode == "ones", info.dtype)
    if np.issubdtype(np.dtype(info.dtype), np.floating):
        return random.standard_normal(shape).astype(info.dtype)
    return random.integers(0, 2, shape).astype(info.dtype)


def _in_place(array: np.ndarray) -> np.ndarray:
    """Copy an array so that the model can read it without another copy."""
    copy = tvm_ios_runtime.empty(array.shape, array.dtype)
    copy[...] = array
    return copy


def _time(model: Model, inputs: Sequence[np.ndarray], args: argparse.Namespace) -> np.ndarray:
    """Milliseconds of a run in each repeat."""
    times = []
    for _ in range(args.repeat):
        begin = time.perf_counter()
        for _ in range(args.number):
            model(*inputs)
        times.append(1e3 * (time.perf_counter() - begin) / args.number)
    return np.array(times)


def _report(
    args: argparse.Namespace,
    named: dict[str, np.ndarray],
    times: np.ndarray | None,
    helped: HelperCounts,
) -> None:
    summary = None if times is None else _summary(times)
    if args.json:
        shapes = {
            name: {"dtype": str(a.dtype), "shape": list(a.shape)} for name, a in named.items()
        }
        output.print_json({"outputs": shapes} | _timed(summary, helped))
        return
    console = output.console()
    for name, array in named.items():
        console.print(f"{name} {array.dtype}{list(array.shape)}")
    if summary:
        table = output.table(*(f"{name} (ms)" for name in summary))
        table.add_row(*(f"{value:.4f}" for value in summary.values()))
        console.print(table)
        if helped.launches:
            console.print(
                f"helpers were invited to {helped.helped} of {helped.launches} runs; of "
                f"{helped.units} units, {helped.stolen} were taken from another worker"
            )


def _timed(summary: dict[str, float] | None, helped: HelperCounts) -> dict[str, object]:
    if not summary:
        return {}
    return {"time_ms": summary, "helpers": helped._asdict()}


def _summary(times: np.ndarray) -> dict[str, float]:
    statistics = {
        "mean": times.mean(),
        "median": np.median(times),
        "max": times.max(),
        "min": times.min(),
        "std": times.std(),
    }
    return {name: round(float(value), 6) for name, value in statistics.items()}
