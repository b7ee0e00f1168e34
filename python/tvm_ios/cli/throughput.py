# SPDX-License-Identifier: Apache-2.0
"""``tvm-ios bench --throughput``: how many samples a second, asked for in several ways."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tvm_ios_runtime.session import leaves

from ..backend.registry import kind_of
from ..compiler import signatures, steps
from ..compiler.any_shape import Load, at_sizes, with_any_shape
from ..compiler.artifact import Requests
from ..compiler.scheduler import Scheduler
from ..compiler.signatures import Networks
from ..relax_ir.expressions import static_shape
from ..support.errors import ModelError, OptionError
from ..support.files import replacing
from ..support.folders import TemporaryFolder
from ..throughput.contest import Entry, Result, contest
from ..throughput.ways import ONNX_RUNTIME, OPENVINO, OURS, PEERS, TITLES, Way, ways_of
from . import interrupt, output
from .compile import loader
from .options import Request

_BATCHES = (1, 8, 32)
_ROUNDS, _TURN, _LIMIT = 5, 0.5, 90.0  # seconds of a turn, and of all
_SEARCHING = ("schedule_in", "schedule_out", "measure_all", "rpc_tracker", "batch")
_ONNX = ".onnx"


@dataclass(frozen=True)
class _Library:
    """A library for a number of threads.

    Attributes
    ----------
    request : Request
    batches : dict of int to Scheduler
        The network by the samples of a call.
    networks : sequence of (Scheduler, Schedule)
        The same, then of any batch if the model leaves it open.
    path : Path
    """

    request: Request
    batches: dict[int, Scheduler]
    networks: Networks
    path: Path

    @property
    def threads(self) -> int:
        """Threads that compute a call."""
        return self.networks[0][1].workers

    def write(self, path: Path, requests: Requests | None = None) -> None:
        """Compile it."""
        signatures.write(self.networks, path, self.request.runner, requests=requests)

    def inputs(self) -> dict[int, list[np.ndarray]]:
        """Return random inputs for each batch."""
        return {
            batch: [t.numpy() for t in leaves(scheduler.random_inputs(scheduler.options.seed))]
            for batch, scheduler in self.batches.items()
        }


def run(args: argparse.Namespace) -> None:
    """Compile for all cores and for one, measure, and keep the library of what was fastest."""
    _check(args)
    with replacing(args.output) if args.output else nullcontext(()) as drafts:
        with TemporaryFolder() as folder:
            libraries = _libraries(args, folder)
            entries, inputs = _entries(args, libraries), libraries[0].inputs()
            result = contest(entries, inputs, folder, rounds=_ROUNDS, seconds=_TURN, limit=_LIMIT)
            best = result.best([OURS])
            if best is None:
                raise ModelError(f"The model cannot be run: {result.left_out[OURS]}.")
            for draft in drafts:
                (chosen,) = (library for library in libraries if library.threads == best.threads)
                chosen.write(draft, Requests(best.callers, best.batch))
        interrupt.check()
    if args.json:
        output.print_json(_as_dict(args, result, best))
    else:
        _print(args, result, best)


def _check(args: argparse.Namespace) -> None:
    """Raise OptionError for arguments that are at odds."""
    for name in _SEARCHING:
        if getattr(args, name):
            flag = "--" + name.replace("_", "-")
            raise OptionError(f"--throughput and {flag} exclude each other; give one.")
    if kind_of(args.target).device != "cpu":
        raise OptionError("--throughput is for CPUs; leave --target out.")
    if args.output and Path(args.output).suffix != ".so":
        raise OptionError(f"The output must be named NAME.so, got {args.output}.")


def _libraries(args: argparse.Namespace, folder: Path) -> list[_Library]:
    """Compile the network for all cores, and for one of them if there are more."""
    libraries: list[_Library] = []
    for threads in (args.threads, 1):
        request = Request(
            argparse.Namespace(**{**vars(args), "threads": threads, "no_search": True})
        )
        load = loader(request)
        batches = _at_batches(args.batch_sizes, load)
        networks = [(each, steps.choose(each, search=False)) for each in batches.values()]
        path = folder / f"{len(libraries)}.so"
        library = _Library(request, batches, with_any_shape(networks, load), path)
        library.write(path)
        libraries.append(library)
        if library.threads == 1:
            break
    return libraries


def _at_batches(wanted: Sequence[int] | None, load: Load) -> dict[int, Scheduler]:
    """Return the network at each batch, or as it is if it fixes its batch.

    Raises
    ------
    ModelError
        Also if the network is decided while it runs.
    """
    try:
        batches = {batch: at_sizes(load, batch=batch) for batch in wanted or _BATCHES}
    except ModelError:
        if wanted:
            raise
        fixed = at_sizes(load)
        batches = {_batch_of(fixed): fixed}
    if any(scheduler.decides for scheduler in batches.values()):
        raise ModelError(
            "The network decides on branches or loops while it runs, so that random numbers say "
            "little of its speed."
        )
    return batches


def _batch_of(scheduler: Scheduler) -> int:
    """Return the first dimension that all inputs share; 1 if they share none."""
    function = scheduler.prepared[scheduler.graph.function]
    sizes = {static_shape(parameter, "an input")[:1] for parameter in function.params}
    return int(sum(*sizes)) if len(sizes) == 1 and () not in sizes else 1


def _entries(args: argparse.Namespace, libraries: Sequence[_Library]) -> list[Entry]:
    """Return who takes part: our libraries, and others if the model is a file that they read."""
    threads, batches = libraries[0].threads, list(libraries[0].batches)
    ways = ways_of(OURS, threads, batches)
    entries = [
        Entry(OURS, library.path, [way for way in ways if way.threads == library.threads])
        for library in libraries
    ]
    if Path(args.model).suffix == _ONNX:
        model = Path(args.model).resolve()
        ways = ways_of(ONNX_RUNTIME, threads, batches)
        entries += [
            Entry(ONNX_RUNTIME, model, [way for way in ways if way.threads == library.threads])
            for library in libraries
        ]
        entries.append(Entry(OPENVINO, model, ways_of(OPENVINO, threads, batches)))
    return entries


def _as_dict(args: argparse.Namespace, result: Result, best: Way) -> dict[str, Any]:
    peer = result.best(PEERS)
    return {
        "model": args.model,
        "ways": [_way(result, way) for way in result.figures],
        "best": _way(result, best),
        "best_peer": None if peer is None else _way(result, peer),
        "ratio": None if peer is None else result.ratio(best, peer),
        "max_rel_error": result.errors,
        "left_out": result.left_out,
    }


def _way(result: Result, way: Way) -> dict[str, Any]:
    figures = result.figures[way]
    return {
        "system": way.system,
        "threads": way.threads,
        "callers": way.callers,
        "batch": way.batch,
        "samples_per_s": figures.rate,
        "latency_ms": 1e3 * figures.latency,
        "rounds": figures.samples_per_s,
    }


def _print(args: argparse.Namespace, result: Result, best: Way) -> None:
    console = output.console()
    table = output.table(
        "system", "requests", "samples/s", "ms a call", left=("system", "requests")
    )
    for way in sorted(result.figures, key=lambda way: -result.figures[way].rate):
        figures = result.figures[way]
        mark = " *" if way == best else "  "
        cells = f"{figures.rate:.1f}{mark}", f"{1e3 * figures.latency:.3f}"
        table.add_row(TITLES[way.system], str(way), *cells)
    console.print(table)
    for system, reason in result.left_out.items():
        console.print(f"{TITLES[system]} is left out: {reason}.")
    for system in sorted({way.system for way in result.figures} - {OURS}):
        console.print(
            f"{TITLES[system]}: difference {result.errors[system]:.1e} of the largest output"
        )
    peer = result.best(PEERS)
    if peer is not None:
        ratio = result.ratio(best, peer)
        console.print(f"tvm_ios ÷ {TITLES[peer.system]}, at their best: {ratio:.2f}x")
    if args.output:
        console.print(f"{args.output}: {best}; examples/serve.py makes its requests so")
