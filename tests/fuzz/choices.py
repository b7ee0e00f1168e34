# SPDX-License-Identifier: Apache-2.0
"""How a network is compiled: all that a user could choose, by its seed and nothing else."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
import tvm

from support.amx import FEATURES
from tvm_ios.backend.cpu.core import MachineBalance, core_of
from tvm_ios.options import Options
from tvm_ios.schedule.synchronization import Synchronization
from tvm_ios.target import resolve

MOST_WORKERS = 8
_HALF = 0.2  # the share of networks in half precision
_OPEN = 0.25  # of those that may leave dimensions open

WAYS = ("unsearched", "sequential", "greedy", "search", "search", "drawn", "drawn", "drawn")
"""Where a schedule comes from: a baseline, the dynamic programme under random prices, or chance."""


@dataclass(frozen=True)
class Choices:
    """How one network is compiled and called.

    Attributes
    ----------
    variant : str
        One of :data:`WAYS`.
    target : str
        As JSON.
    options : Options
    balance : MachineBalance
        Which measuring would give, and which decides between kernels.
    partitioning : str or None
        What the work of all stages is divided by, where that is possible.
    library : bool
        Whether the model is linked, written and loaded, or runs from memory.
    json : bool
        Whether the schedule is written and read.
    synchronization : str
        How workers wait for each other.
    checked : bool
        Whether they check that they do, and are delayed at random.
    emulated : bool
        Whether what the CPU has no instructions for is computed by others.
    open : bool
        Whether the network leaves dimensions open, where it can.
    """

    variant: str
    target: str
    options: Options
    balance: MachineBalance
    partitioning: str | None
    library: bool
    json: bool
    synchronization: Synchronization
    checked: bool
    emulated: bool
    open: bool

    def but(self, **chosen: str) -> Choices:
        """These with some that are given as text: a field's value, or one of the target's."""
        target, fields = json.loads(self.target), {}
        for key, text in chosen.items():
            if key == "mcpu":
                target.pop("mattr", None)
            if key in target:
                target[key] = type(target[key])(text)
            elif key == "partitioning":
                fields[key] = None if text == "None" else text
            elif key == "precision":
                fields["options"] = replace(self.options, precision=text)
            elif key == "way":
                fields["variant"] = text
            elif key == "synchronization":
                fields[key] = text
            elif key in ("library", "json", "checked", "emulated", "open"):
                fields[key] = text == "True"
            else:
                raise ValueError(f"There is no choice {key!r}.")
        return replace(self, target=json.dumps(target), **fields)

    @property
    def amx(self) -> bool:
        """Whether matrices are multiplied by AMX, which is emulated."""
        return "mattr" in json.loads(self.target)

    def __str__(self) -> str:
        config = json.loads(self.target)
        parts = [self.variant, f"{config['num-cores']} threads", config.get("mcpu", "native")]
        parts.append(f"opt-level {config['opt-level']}")
        parts += [f"by {self.partitioning}"] if self.partitioning else []
        parts += ["as a library"] if self.library else []
        parts += [self.synchronization, *(["checked"] if self.checked else [])]
        parts += ["emulated"] if self.emulated else []
        parts += ["of open sizes"] if self.open else []
        parts += [self.options.precision, *(["AMX"] if self.amx else [])]
        limits = self.options
        if self.variant in ("search", "greedy"):
            parts.append(
                f"groups {limits.max_num_groups} of {limits.max_group_size}, "
                f"blocks of {limits.max_block_size}, {'/'.join(limits.strategies)}"
            )
        return ", ".join([*parts, "winograd" if limits.winograd else "no winograd"])


def random_choices(random: np.random.Generator) -> Choices:
    def pick(*options):
        return options[random.integers(len(options))]

    target = {
        "kind": "llvm",
        "mcpu": pick(*_cpus()),
        "num-cores": pick(1, 1, 2, 2, 2, 3, 3, 4, 5, MOST_WORKERS),
        "opt-level": pick(0, 0, 0, 1, 2, 3),
    }
    options = Options(
        max_group_size=pick(None, 1, 2, 3, 5),
        max_num_groups=pick(None, 1, 2, 3, 8),
        max_block_size=pick(1, 3, 6, 10),
        winograd=pick(True, True, False),
        precision="fp32",
        strategies=pick(
            ("concurrent", "merge"), ("concurrent", "merge"), ("concurrent",), ("merge",)
        ),
        seed=int(random.integers(2**31)),
    )
    # Near memory makes Winograd's algorithm the faster one.
    balance = pick(MachineBalance(), MachineBalance(1.0, 1.0), MachineBalance(0.01, 0.01))
    choices = Choices(
        variant=pick(*WAYS),
        target=json.dumps(target),
        options=options,
        balance=balance,
        partitioning=pick(None, None, "tiles", "groups", "strips"),
        library=bool(random.random() < 0.02),
        json=bool(random.random() < 0.2),
        synchronization=pick("barrier", "point-to-point", "point-to-point"),
        checked=bool(random.random() < 0.5),
        emulated=bool(random.random() < 0.5),
        open=False,
    )
    if random.random() < _HALF:
        choices = choices.but(precision="bf16")
        if core_of(tvm.target.Target(target)).lanes == 16 and random.random() < 0.5:
            choices = replace(choices, target=json.dumps({**target, "mattr": FEATURES}))
    return replace(choices, open=bool(random.random() < _OPEN))


@cache
def _cpus() -> tuple[str, ...]:
    """This machine's CPU, and older ones whose instructions it has."""
    native = resolve("llvm", threads=1)
    mcpu = json.loads(str(native)).get("mcpu", "generic")
    machine = str(tvm.target.codegen.llvm_get_system_triple())
    if not machine.startswith("x86_64"):
        return (mcpu,)
    older = [mcpu, mcpu, "x86-64"]
    if tvm.target.codegen.llvm_cpu_has_features("avx2", native):
        older.append("haswell")
    return tuple(older)
