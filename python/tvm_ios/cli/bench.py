# SPDX-License-Identifier: Apache-2.0
"""``tvm-ios bench``: what scheduling gains on a network, and how exact the result is.

On a GPU PyTorch takes part, too, on the same inputs and in the same rounds.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import tvm
from rich.table import Table
from tvm import relax

from tvm_ios_runtime.session import leaves

from ..baselines.contenders import Peers
from ..baselines.gpu import gpu_peers
from ..compiler.compare import (
    GREEDY,
    SCHEDULED,
    SEQUENTIAL,
    Comparison,
    as_returned,
    compare,
    time_schedules,
)
from ..compiler.scheduler import Scheduler
from ..draw import words
from ..measure.timing.models import Timing
from ..schedule.schedule import Schedule
from ..support.errors import ModelError, OptionError
from ..support.files import replacing
from ..support.progress import working
from ..target import resolve
from . import interrupt, output, throughput
from .options import Request, add_common, add_network, add_search, add_seed, batch_sizes

_EPILOG = """\
examples:
  tvm-ios bench zoo:squeezenet
  tvm-ios bench zoo:inception_v3 --batch 4 --threads 2 --json
  tvm-ios bench model.onnx --schedule-in s.json
  tvm-ios bench zoo:inception_v3 --target cuda
  tvm-ios bench model.onnx --throughput -o served.so

With --throughput, the network is compiled without a search, once for all cores and once for one of
them, and called in several ways at each batch size: by one caller, by more callers than cores, and
by a caller for each core whose calls have one thread. ONNX Runtime is called in the same ways, and
OpenVINO by its throughput hint, where they are installed and the model is an ONNX file. All take
turns, each in a process of its own.

On a GPU, the sequential schedule is timed without a CUDA graph, and all schedules are timed in one.
The column "ms" is the time of a run when runs follow each other back to back. In the column "one by
one", each run ends before the next one starts. Timing starts when the GPU has raised its clock.

If PyTorch is installed with CUDA, the command also times the network in PyTorch: with torch.compile
and max-autotune, and with PyTorch's own kernels and cuDNN, channels last, in a CUDA graph.
"""

_ROWS = {
    "launched": "sequential, without a graph",
    "sequential": "sequential",
    "greedy": "greedy",
    "scheduled": "scheduled",
}
_PEERS = {"torch_compile": "torch.compile", "torch_cudnn": "PyTorch, cuDNN"}


@dataclass(frozen=True)
class Contest:
    """What was timed in one run.

    Attributes
    ----------
    ours : Comparison
    peers : Peers
    timings : dict of str to Timing
        Of everybody, on a GPU.
    discarded : int
        Samples that were taken while the GPU's clock was low.
    """

    ours: Comparison
    peers: Peers = field(default_factory=Peers)
    timings: dict[str, Timing] = field(default_factory=dict)
    discarded: int = 0


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "bench",
        help="time the sequential, the greedy and the searched schedule",
        description="Time a network under the sequential, the greedy and the searched schedule in "
        "one run, and compare its outputs with those of TVM's own lowering; or measure its "
        "throughput.",
        epilog=_EPILOG,
    )
    add_network(parser)
    add_search(parser)
    parser.add_argument(
        "--throughput",
        action="store_true",
        help="measure how many samples a second are computed, instead of schedules",
    )
    parser.add_argument(
        "--batch-sizes",
        type=batch_sizes,
        metavar="N,...",
        help="batch sizes of --throughput (default: 1,8,32, or the one that the model fixes)",
    )
    parser.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        help="write the library that --throughput found to be the fastest, NAME.so",
    )
    add_seed(parser)
    add_common(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> None:
    """Search, time, check and report."""
    if args.throughput:
        throughput.run(args)
        return
    for name in ("batch_sizes", "output"):
        if getattr(args, name):
            raise OptionError(f"--{name.replace('_', '-')} needs --throughput; give it, too.")
    request = Request(args)
    if request.runner.machine is None:
        request.kind.check(request.target, request.runner.device_id)
    with replacing(*filter(None, [args.schedule_out])) as drafts:
        mod, scheduler = request.load()
        if scheduler.decides:
            raise ModelError(
                "The network decides on branches or loops while it runs, so that random numbers "
                "say little of its speed; compile it, and time it by 'run --print-time -i FILE'."
            )
        contest = _contest(args, scheduler, _timed(scheduler, request.given))
        schedule, errors = contest.ours.schedule, _errors(mod, scheduler, contest)
        for draft in drafts:
            output.write_schedule(draft, schedule)
        interrupt.check()
    result = _result(args.model, contest, errors)
    if args.json:
        output.print_json(result)
    else:
        _print(result, schedule)


def _timed(scheduler: Scheduler, given: Schedule | None) -> Comparison:
    """Return the schedule to apply, with the latencies of all three."""
    if given is None:
        return compare(scheduler)
    sequential, greedy = scheduler.sequential(), scheduler.greedy()
    given = scheduler.applied(given)
    schedules = {SEQUENTIAL: sequential, GREEDY: greedy, SCHEDULED: given}
    variants = scheduler.compile(schedules)
    decision = time_schedules(variants, schedules, [SCHEDULED])
    timed = replace(given, measured=dict(decision.seconds), speedup=decision.speedup)
    return Comparison(timed, SCHEDULED, variants)


def _contest(args: argparse.Namespace, scheduler: Scheduler, ours: Comparison) -> Contest:
    """Time everybody again in the same rounds, on a device that other implementations run on."""
    rounds = ours.variants.shared_rounds()
    if rounds is None:
        return Contest(ours)
    inputs = scheduler.random_inputs(scheduler.options.seed)
    arrays = [tensor.numpy() for tensor in leaves(inputs)]
    with working("preparing PyTorch"):
        wanted = (args.model, args.batch, arrays, args.device_id, args.precision)
        peers = gpu_peers(*wanted, trust=args.trust)
    timings = rounds.timings(peers.ready)
    seconds = {name: timing.seconds for name, timing in timings.items() if name not in peers.ready}
    schedule = replace(ours.schedule, measured=as_returned(seconds, ours.name))
    return Contest(replace(ours, schedule=schedule), peers, timings, rounds.discarded)


def _errors(
    mod: tvm.IRModule, scheduler: Scheduler, contest: Contest
) -> dict[str, tuple[float, float]]:
    """By contender, the largest absolute error, and relative to the largest output.

    The reference is TVM's default lowering of the imported module, which has nothing in common
    with the kernels of this package; it runs on the CPU of this process.
    """
    function = scheduler.graph.function
    arguments = scheduler.random_inputs(scheduler.options.seed)
    target = _compiled_quickly(resolve("llvm"))
    with working("computing the outputs by TVM alone"):
        reference = tvm.compile(mod, target, relax_pipeline=relax.get_default_pipeline(target))
        vm = relax.VirtualMachine(reference, tvm.cpu())
        expected = _arrays(vm[function](*arguments))
    ours = contest.ours
    computed = {"scheduled": _arrays(ours.variants(ours.name, arguments))}
    computed |= {name: peer.outputs() for name, peer in contest.peers.ready.items()}
    return {name: _error(arrays, expected) for name, arrays in computed.items()}


def _error(computed: list[np.ndarray], expected: list[np.ndarray]) -> tuple[float, float]:
    largest = max(float(np.abs(e).max(initial=0.0)) for e in expected)
    error = max(
        float(np.abs(c - e).max(initial=0.0)) for c, e in zip(computed, expected, strict=True)
    )
    return error, error / largest if largest else error


def _compiled_quickly(target: tvm.target.Target) -> tvm.target.Target:
    """Return the target with few of LLVM's optimisations, as the reference runs once."""
    config = {str(key): value for key, value in target.export().items()}
    return tvm.target.Target({**config, "opt-level": 1})


def _arrays(outputs: Any) -> list[np.ndarray]:
    return [tensor.numpy().astype("float64") for tensor in leaves(outputs)]


def _result(
    model: str, contest: Contest, errors: Mapping[str, tuple[float, float]]
) -> dict[str, Any]:
    schedule = contest.ours.schedule
    measured = schedule.measured
    result: dict[str, Any] = {
        "model": model,
        "target": schedule.target,
        "threads": schedule.workers,
        "operators": len(schedule.operators),
        "stages": len(schedule.stages),
        **output.times(measured),
        "speedup": output.speedup(measured, "scheduled"),
        "speedup_interval": output.interval(schedule),
        "search_s": round(schedule.search_seconds, 3),
        "measurements": schedule.measurements,
        "max_abs_error": errors["scheduled"][0],
        "max_rel_error": errors["scheduled"][1],
    }
    if contest.peers.ready or contest.peers.left_out:
        ready = {
            name: {
                "ms": round(1e3 * contest.timings[name].seconds, 6),
                "max_rel_error": errors[name][1],
            }
            for name in contest.peers.ready
        }
        left_out = {name: {"left_out": why} for name, why in contest.peers.left_out.items()}
        result["peers"] = {**ready, **left_out}
    if contest.timings:
        timings = as_returned(contest.timings, contest.ours.name)
        result["timings"] = {name: timing.to_dict() for name, timing in timings.items()}
        result["discarded_samples"] = contest.discarded
    return result


def _print(result: dict[str, Any], schedule: Schedule) -> None:
    console = output.console()
    console.print(
        f"{result['model']}: {result['operators']} operators in {result['stages']} stages, "
        f"{words.machine(schedule)}"
    )
    peers = result.get("peers", {})
    times = {name: (title, result.get(f"{name}_ms")) for name, title in _ROWS.items()}
    times |= {name: (_PEERS[name], peer.get("ms")) for name, peer in peers.items()}
    console.print(_table(times, result))
    for name, peer in peers.items():
        if "left_out" in peer:
            console.print(f"{_PEERS[name]} is left out: {peer['left_out']}.")
        else:
            console.print(
                f"{_PEERS[name]}: error {peer['max_rel_error']:.2e} of the largest output"
            )
    if schedule.verdict:
        console.print(f"speed-up: {schedule.verdict}")
    if words.precision(schedule):
        console.print(f"precision: {words.precision(schedule)}")
    if "found_ms" in result:
        console.print(f"The schedule found took {result['found_ms']:.3f} ms; another one was kept.")
    console.print(f"search: {result['search_s']:.1f} s, {result['measurements']} stages measured")
    console.print(
        f"error: at most {result['max_abs_error']:.2e}, "
        f"{result['max_rel_error']:.2e} of the largest output"
    )


def _table(times: Mapping[str, tuple[str, float | None]], result: dict[str, Any]) -> Table:
    """Times by name, with titles; on a GPU also what a run takes that is waited for.

    There are no speed-ups where the machine was too busy to tell any.
    """
    timings, told = result.get("timings", {}), result["speedup_interval"] is not None
    sequential = result.get("sequential_ms") if told else None
    columns = ("ms", "one by one", "speed-up") if timings else ("ms", "speed-up")
    table = output.table("schedule", *columns, left=("schedule",))
    for name, (title, ms) in times.items():
        if ms is None:
            continue
        alone = [f"{timings[name]['latency_ms']['median']:.3f}"] if timings else []
        table.add_row(title, f"{ms:.3f}", *alone, f"{sequential / ms:.2f}x" if sequential else "")
    return table
