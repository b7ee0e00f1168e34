# SPDX-License-Identifier: Apache-2.0
"""Errors of random networks in 16 bits, beside ONNX Runtime (float16) and PyTorch (bfloat16).

All compute the same networks, of the same weights and inputs. An error is the distance from PyTorch
in float64. ONNX Runtime has few operators of bfloat16 on CPUs, and PyTorch rounds after each
operator. Whatever computes a result, rounding it to 16 bits remains.
"""

from __future__ import annotations

import copy
import math
import statistics
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnxruntime
import torch
from torch import nn

import markdown
import tvm_ios
from command import parser, write
from random_networks import KINDS, draw
from tvm_ios.target import available_cores

_COUNT = 20

Compute = Callable[[torch.Tensor], torch.Tensor]


@dataclass(frozen=True)
class Errors:
    """The errors of one network.

    Attributes
    ----------
    kind : str
    dtype : str
    seed : int
    ours, theirs : tuple of float
        The largest one and the mean, in shares of the largest magnitude of the result.
    rounding : tuple of float
        Those of a result that is exact but for its rounding to 16 bits.
    """

    kind: str
    dtype: str
    seed: int
    ours: tuple[float, float]
    theirs: tuple[float, float]
    rounding: tuple[float, float]

    @property
    def excess(self) -> float:
        """By how many roundings of the result ours is larger, at most; 0 where it is not."""
        return max(
            max(0.0, mine - other) / (unit or 1.0)
            for mine, other, unit in zip(self.ours, self.theirs, self.rounding, strict=True)
        )


def compare(kind: str, seed: int, dtype: torch.dtype, threads: int) -> Errors:
    """Compute a random network by ours and by the other, and in float64.

    Parameters
    ----------
    kind : str
        One of :data:`random_networks.KINDS`.
    seed : int
        What the network is drawn from.
    dtype : torch.dtype
        Of its weights and inputs: float16, which is compared as an ONNX file, or bfloat16.
    threads : int
    """
    network, x = draw(kind, seed, dtype)
    with torch.no_grad(), tempfile.TemporaryDirectory() as folder:
        expected = copy.deepcopy(network).double()(x.double())
        run = _by_onnx_runtime if dtype == torch.float16 else _by_pytorch
        ours, theirs = run(network, x, threads, Path(folder) / "model.onnx")
    found = [_errors(result, expected) for result in (ours(x), theirs(x), expected.to(dtype))]
    return Errors(kind, str(dtype).removeprefix("torch."), seed, *found)


def _errors(result: torch.Tensor, expected: torch.Tensor) -> tuple[float, float]:
    differences = (result.double() - expected).abs() / expected.abs().max()
    return float(differences.max()), float(differences.mean())


def _by_pytorch(
    network: nn.Module, x: torch.Tensor, threads: int, _path: Path
) -> tuple[Compute, Compute]:
    return tvm_ios.compile(network, [x], search=False, threads=threads), network


def _by_onnx_runtime(
    network: nn.Module, x: torch.Tensor, threads: int, path: Path
) -> tuple[Compute, Compute]:
    torch.onnx.export(network, (x,), path, dynamo=True, verbose=False)
    ours = tvm_ios.compile(path, search=False, threads=threads)
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    name = session.get_inputs()[0].name

    def theirs(x: torch.Tensor) -> torch.Tensor:
        return torch.from_numpy(np.asarray(session.run(None, {name: x.numpy()})[0]))

    return ours, theirs


def table(results: Sequence[Errors]) -> str:
    """Return how ours compare, by the kind of network and its type, as Markdown."""
    rows = []
    for dtype, kind in dict.fromkeys((e.dtype, e.kind) for e in results):
        group = [e for e in results if (e.dtype, e.kind) == (dtype, kind)]
        rows.append(
            [
                f"{kind}, {dtype}",
                "ONNX Runtime" if dtype == "float16" else "PyTorch",
                str(len(group)),
                *(_ratio(group, which) for which in (0, 1)),
                f"{max(e.excess for e in group):.2f}",
            ]
        )
    header = ["networks", "other", "number", "largest error", "mean error", "most above"]
    return markdown.table(header, rows)


def _ratio(group: Sequence[Errors], which: int) -> str:
    """Return the geometric mean of ours divided by theirs, and the largest."""
    ratios = [e.ours[which] / e.theirs[which] for e in group if e.ours[which] and e.theirs[which]]
    mean = math.exp(statistics.fmean(map(math.log, ratios)))
    return f"{mean:.2f} (≤ {max(ratios):.2f})"


def main(argv: Sequence[str] | None = None) -> None:
    """Compare random networks and print a table."""
    arguments = parser(__doc__ or "", list(KINDS), "errors")
    arguments.add_argument("--count", type=int, default=_COUNT, help="of networks of each kind")
    args = arguments.parse_args(argv)
    threads = args.threads or available_cores()
    results: list[Errors] = []
    for dtype in (torch.float16, torch.bfloat16):
        for kind in args.models:
            for seed in range(args.count):
                results.append(compare(kind, seed, dtype, threads))
                print(results[-1], file=sys.stderr)
            write(args.json, networks=results)
    print(table(results))


if __name__ == "__main__":
    main()
