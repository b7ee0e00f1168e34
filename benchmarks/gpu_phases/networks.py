# SPDX-License-Identifier: Apache-2.0
"""A network of the zoo, ready for a GPU."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

import numpy as np

from gpu_phases.steps import TOLERANCE
from tvm_ios import zoo
from tvm_ios.backend.cuda.target import resolve_cuda
from tvm_ios.compiler.scheduler import Scheduler
from tvm_ios.measure.transport.locations import LocalRunner
from tvm_ios.options import Options
from tvm_ios_runtime.session import leaves


def arguments(description: str | None) -> argparse.ArgumentParser:
    """What a step for one network is told."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("network", help="of the zoo")
    parser.add_argument("--device-id", type=int, default=0)
    parser.add_argument("--precision", choices=list(TOLERANCE), default="fp32")
    parser.add_argument("--cudnn", action="store_true")
    return parser


def scheduler(args: argparse.Namespace, database: str | None = None) -> Scheduler:
    """Prepare the network that :func:`arguments` has parsed."""
    options = Options(precision=args.precision, cudnn=args.cudnn, database=database)
    target, runner = resolve_cuda("cuda", args.device_id), LocalRunner(args.device_id)
    return Scheduler.prepare(zoo.load(args.network), target, options=options, runner=runner)


def arrays(outputs: Any) -> list[np.ndarray]:
    """What a model has computed, on the host."""
    return [tensor.numpy() for tensor in leaves(outputs)]


def relative_error(actual: Sequence[np.ndarray], expected: Sequence[np.ndarray]) -> float:
    """The largest difference relative to the largest expected value, over all outputs."""
    tiny = np.finfo("float64").tiny  # of outputs that are all zero
    return max(
        float(np.abs(a.astype("float64") - e).max() / max(np.abs(e.astype("float64")).max(), tiny))
        for a, e in zip(actual, expected, strict=True)
    )


def complaint(error: float, precision: str, reference: str) -> dict[str, str]:
    """The failure of a step whose error is too large, or not a number; empty for others."""
    if error <= TOLERANCE[precision]:
        return {}
    return {"failure": f"off by {error:.1e} of the largest output of {reference}"}
