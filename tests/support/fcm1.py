# SPDX-License-Identifier: Apache-2.0
"""FCM-1, a cost model in integers for tests of the search, and the graphs it comes with.

Every stage costs 5000 ns to start, and 1000 ns for each further group. Groups run side by side,
so that a stage takes as long as its longest group (the sum of its operators' ``L_ns``), unless the
machine is full: then it takes as long as all the work (the sum of ``W_ns``).
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from support.paths import TESTS
from tvm_ios.graph.dag import Candidate, Dag

STAGE_NS = 5000
GROUP_NS = 1000  # each but the first
DATA = TESTS / "data" / "reference"


@dataclass(frozen=True)
class Part:
    """Operators that are searched on their own, renumbered from zero."""

    ops: list[dict[str, Any]]
    dag: Dag

    def merge_class(self) -> list[int]:
        """One class for each operator of its own, but one for all convs that may be merged."""
        keys = [merge_key(op) or f"operator {index}" for index, op in enumerate(self.ops)]
        numbers = {key: number for number, key in enumerate(dict.fromkeys(keys))}
        return [numbers[key] for key in keys]

    def cost(self, candidates: Sequence[Candidate]) -> np.ndarray:
        """Return the cost of each candidate: float64 [n], whole nanoseconds."""
        neighbours = [0] * len(self.ops)
        for u, v in self.dag.edges:
            neighbours[u] |= 1 << v
            neighbours[v] |= 1 << u
        return np.array(
            [
                merge_ns([self.ops[op] for op in ops])
                if strategy == "merge"
                else self._concurrent_ns(_groups(ops, neighbours))
                for ops, strategy in candidates
            ],
            dtype=np.float64,
        )

    def schedule_ns(self, stages: Sequence[Candidate]) -> int:
        """Return the cost of all stages of a schedule."""
        return int(self.cost(stages).sum())

    def _concurrent_ns(self, groups: Sequence[Iterable[int]]) -> int:
        longest = work = 0
        for group in groups:
            longest = max(longest, sum(self.ops[op]["L_ns"] for op in group))
            work += sum(self.ops[op]["W_ns"] for op in group)
        return STAGE_NS + GROUP_NS * (len(groups) - 1) + max(longest, work)


@dataclass(frozen=True)
class Block:
    """A block of a network as a whole, and the parts that are searched one by one."""

    whole: Part
    parts: list[Part]


def merge_ns(ops: Sequence[dict[str, Any]]) -> int:
    """Return the cost of operators that are replaced by one."""
    if len(ops) == 1:
        return STAGE_NS + max(ops[0]["L_ns"], ops[0]["W_ns"])
    (in_channels, *in_size), stride = ops[0]["input_shape"], ops[0]["stride"]
    kernel = [max(size) for size in zip(*(op["kernel"] for op in ops), strict=True)]
    padding = [max(size) for size in zip(*(op["padding"] for op in ops), strict=True)]
    out_channels = sum(op["out_channels"] for op in ops)
    out_size = [
        (size + 2 * pad - window) // step + 1
        for size, pad, window, step in zip(in_size, padding, kernel, stride, strict=True)
    ]
    num_out = out_channels * prod(out_size)
    window = in_channels // ops[0]["groups"] * prod(kernel)
    flops = 2 * num_out * window
    num_bytes = 4 * (in_channels * prod(in_size) + num_out + out_channels * window + out_channels)
    latency = 2000 + max(flops // 8000, num_bytes // 400)
    work = latency * min(1000, max(50, num_out * 1000 // 327680)) // 1000
    return STAGE_NS + max(latency, work)


def load(name: str) -> list[list[Part]]:
    """Read a network's blocks, each as the list of its parts."""
    blocks = _read(name)["blocks"]
    return [[_part(block, bits) for bits in block["parts"]] for block in blocks]


def load_file(path: str | Path) -> dict[int, Block]:
    """Read the blocks of a file in the reference format, by index."""
    blocks = json.loads(Path(path).read_text())["blocks"]
    return {
        block.get("index", position): Block(
            _part(block, range(len(block["ops"]))), [_part(block, bits) for bits in block["parts"]]
        )
        for position, block in enumerate(blocks)
    }


def load_blocks(name: str) -> list[Part]:
    """Read a network's blocks, each as one part."""
    return [_part(block, range(len(block["ops"]))) for block in _read(name)["blocks"]]


def _read(name: str) -> dict[str, Any]:
    plain = DATA / f"{name}.json"
    text = plain.read_bytes() if plain.exists() else gzip.decompress(_packed(plain).read_bytes())
    return json.loads(text)


def _packed(path: Path) -> Path:
    return path.with_name(path.name + ".gz")


def _part(block: dict[str, Any], bits: Iterable[int]) -> Part:
    index = {bit: number for number, bit in enumerate(bits)}
    edges = [(index[u], index[v]) for u, v in block["edges"] if u in index and v in index]
    return Part([block["ops"][bit] for bit in index], Dag(len(index), edges))


def merge_key(op: dict[str, Any]) -> str | None:
    """Return what merged convs must have in common."""
    if op["type"] != "conv" or op["groups"] != 1 or [len(term) for term in op["inputs"]] != [1]:
        return None
    sizes = op["input_shape"][1:], op["output_shape"][1:]
    return repr((sizes, op["stride"], op["act"], op["inputs"]))


def _groups(ops: Iterable[int], neighbours: list[int]) -> list[list[int]]:
    """Return the connected components of a set of operators."""
    rest = sum(1 << op for op in ops)
    groups = []
    while rest:
        frontier = rest & -rest
        rest ^= frontier
        group = []
        while frontier:
            bit = frontier & -frontier
            group.append(bit.bit_length() - 1)
            found = neighbours[group[-1]] & rest
            rest ^= found
            frontier ^= bit | found
        groups.append(group)
    return groups
