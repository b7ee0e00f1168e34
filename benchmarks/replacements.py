# SPDX-License-Identifier: Apache-2.0
"""What replacing operators gains, alone and together with running them side by side.

The ablation of IOPS (section 3.1): TS replaces operators and runs one after another, PS runs them
side by side, TS+PS does what is faster. The three schedules are searched with one database, so that
no stage is measured twice, and timed as whole compiled models beside the sequential one, in
interleaved rounds.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import tvm

import command
import machine
from tvm_ios import zoo
from tvm_ios.compiler.scheduler import Scheduler
from tvm_ios.measure.timing.rounds import median_seconds
from tvm_ios.options import Options
from tvm_ios.schedule import Schedule
from tvm_ios.target import resolve

METHODS = {"TS": ("merge",), "PS": ("concurrent",), "TS+PS": ("concurrent", "merge")}


@dataclass(frozen=True)
class Result:
    """One network.

    Attributes
    ----------
    network : str
    milliseconds : dict of str to float
        Medians, by method; ``sequential`` among them.
    replacements : dict of str to list of list of str
        By method, the operators of each stage in which they are replaced.
    measurements : dict of str to int
        Stages that each search measured, in this order: what is known already is not counted.
    search_seconds : dict of str to float
    """

    network: str
    milliseconds: dict[str, float]
    replacements: dict[str, list[list[str]]]
    measurements: dict[str, int]
    search_seconds: dict[str, float]


def measure(network: str, target: tvm.target.Target, limits: Mapping[str, int]) -> Result:
    """Search a network of the zoo by every method, and time what is found."""
    mod = zoo.load(network)
    with TemporaryDirectory() as directory:
        database = Path(directory) / "measurements.sqlite3"
        found: dict[str, Schedule] = {}
        for method, strategies in METHODS.items():
            options = Options(**limits, strategies=strategies, database=database)
            scheduler = Scheduler.prepare(mod, target, options=options)
            found[method] = scheduler.search()
        schedules = {"sequential": scheduler.sequential(), **found}
    # The names become those of functions.
    variants = {f"way{i}": schedule for i, schedule in enumerate(schedules.values())}
    seconds = scheduler.compile(variants).time(median_seconds)
    times = {method: seconds[name] for method, name in zip(schedules, variants, strict=True)}
    return Result(
        network,
        milliseconds={method: 1e3 * value for method, value in times.items()},
        replacements={
            method: [list(s.operators) for s in schedule.stages if s.strategy == "merge"]
            for method, schedule in found.items()
        },
        measurements={method: schedule.measurements for method, schedule in found.items()},
        search_seconds={method: schedule.search_seconds for method, schedule in found.items()},
    )


def main(arguments: list[str] | None = None) -> None:
    """Print a JSON object of the networks that are named."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    networks = ("squeezenet", "inception_v3", "nasnet_a_mobile", "nasrnn")
    parser.add_argument("networks", nargs="*", default=networks, help=", ".join(networks))
    parser.add_argument("--threads", type=int, help="default: all cores")
    command.add_limits(parser)
    options = parser.parse_args(arguments)
    target = resolve("llvm", threads=options.threads)
    limits = command.limits(options)
    results = [asdict(measure(network, target, limits)) for network in options.networks]
    about = {"machine": asdict(machine.describe()), "target": str(target)}
    print(json.dumps({**about, "networks": results}, indent=1))


if __name__ == "__main__":
    main()
