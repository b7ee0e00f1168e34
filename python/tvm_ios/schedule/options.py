# SPDX-License-Identifier: Apache-2.0
"""Options of the search."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, get_args

from ..support.errors import OptionError
from .partitioning import STRATEGIES

if TYPE_CHECKING:
    from .schedule import Schedule

Precision = Literal["fp32", "tf32", "fp16", "bf16"]
"""What is multiplied; sums are of float32. ``tf32`` is float32 in memory."""
PRECISIONS: tuple[Precision, ...] = get_args(Precision)


@dataclass(frozen=True)
class Options:
    """Options of the search.

    Attributes
    ----------
    max_group_size, max_num_groups : int or None
        The pruning limits r and s; None for no limit.
    max_block_size : int
        Operators searched together; larger networks are cut where few tensors cross. The states of
        a randomly wired block grow exponentially with it: one of 16 has some 10,000, one of 50
        more than fit into memory, which is an error.
    seed : int
        Of the random inputs that stages are measured with, and of what is learned from them.
    measure_all : bool
        Measure every stage that the search may choose, instead of those alone that could change
        the schedule by what is learned from the others.
    caution : float
        How much faster than expected a stage may turn out to be, in standard deviations of what
        is predicted: the larger, the more stages are measured, and the less is missed.
    winograd : bool or None
        Whether convolutions may be computed by Winograd's minimal filtering, which rounds
        differently, where that is faster. None: as the schedule says that is applied; yes, where
        none is.
    precision : str
        What a CUDA device multiplies in convolutions and products: ``fp32`` is exact; ``tf32``,
        ``fp16`` and ``bf16`` round the factors to 11, 11 and 8 bits, for its tensor cores. In
        ``fp16`` factors above 65504 overflow. Sums are in float32 always.
    cudnn : bool
        Whether a CUDA device's convolutions may be computed by cuDNN where that is faster. The
        compiled network then needs cuDNN, too.
    database : path or None
        The file that measurements are kept in and taken from, made where there is none; what is in
        it is not measured again. Several processes may use it at once. None: nothing is kept.
    strategies : sequence of str
        What stages the search may form: ``concurrent``, operators side by side and one after
        another; ``merge``, operators replaced by one. Without the first an operator that is not
        replaced has a stage of its own. These are PS and TS of IOPS (section 3.1).
    """

    max_group_size: int | None = 3
    max_num_groups: int | None = 8
    max_block_size: int = 16
    seed: int = 0
    measure_all: bool = False
    caution: float = 0.5
    winograd: bool | None = None
    precision: Precision = "fp32"
    cudnn: bool = False
    database: str | os.PathLike[str] | None = None
    strategies: Sequence[str] = STRATEGIES

    def __post_init__(self) -> None:
        named = () if isinstance(self.strategies, str) else tuple(self.strategies)
        if not named or len(set(named)) < len(named) or not set(named) <= set(STRATEGIES):
            given = self.strategies if not named else ",".join(map(str, named))
            raise OptionError(f"strategies must name concurrent, merge or both, got {given!r}.")
        if self.precision not in PRECISIONS:
            known = ", ".join(PRECISIONS)
            raise OptionError(f"precision must be one of {known}, got {self.precision!r}.")
        for name in ("max_group_size", "max_num_groups", "max_block_size"):
            value = getattr(self, name)
            if value is None and name != "max_block_size":
                continue
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise OptionError(f"{name} must be a whole number of at least 1, got {value!r}.")
        if not isinstance(self.caution, (int, float)) or not 0 <= self.caution < math.inf:
            raise OptionError(f"caution must be a number of at least 0, got {self.caution!r}.")

    def applying(self, schedule: Schedule | None) -> Options:
        """These, with what they leave to the schedule that is to be applied, if there is one."""
        if self.winograd is not None or schedule is None:
            return self
        return replace(self, winograd=schedule.winograd)
