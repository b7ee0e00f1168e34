# SPDX-License-Identifier: Apache-2.0
"""Options of the search."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import InitVar, dataclass, replace
from statistics import NormalDist
from typing import TYPE_CHECKING, Literal, get_args

from ..support.errors import OptionError
from .partitioning import STRATEGIES
from .pruning import PruningLimits
from .rounding import rounds

if TYPE_CHECKING:
    from .schedule import Schedule

Precision = Literal["fp32", "tf32", "fp16", "bf16"]
"""The data type of factors; sums are float32. ``tf32`` is float32 in memory."""
PRECISIONS: tuple[Precision, ...] = get_args(Precision)

PrecisionOption = Literal[Precision, "auto", "model"]
"""One of them; ``auto``: ``bf16`` on a CPU that multiplies it, as far as a tolerance allows; or
``model``: that on networks of bfloat16 without a tolerance, and ``fp32`` on all others."""
AUTO: PrecisionOption = "auto"
MODEL: PrecisionOption = "model"
CHOICES: tuple[PrecisionOption, ...] = (*PRECISIONS, AUTO, MODEL)

_MOST = 0.99  # coverage: more would take hundreds of measurements to calibrate


@dataclass(frozen=True)
class Options:
    """The options of the search.

    Attributes
    ----------
    max_group_size, max_num_groups : int or None
        The pruning limits r and s: operators in a group, groups in a stage. None: no limit.
    max_block_size : int
        The maximum number of operators that are searched together. A larger network is partitioned
        where few tensors cross. A block with few enough schedules is searched completely. Any other
        one is searched best first, within a budget that grows with its operators; ``search_gap`` of
        the schedule says how far from the optimum it may be.
    seed : int
        The seed of the random inputs that stages are measured with, and of the learned cost model.
    measure_all : bool
        Whether to measure every candidate stage, instead of only those that could change the
        schedule by the learned cost model.
    coverage : float
        The share of the stages that are to be slower than the bounds that the search uses, from 0.5
        to 0.99. With a larger share more stages are measured and fewer good ones are missed.
    lcb_factor : float, optional
        The earlier form of ``coverage``: how many standard deviations of a normal error a bound
        lies below the prediction. 0.5 is a coverage of 0.69.
    winograd : bool or None
        Whether convolutions may use Winograd's minimal filtering where that is faster; it rounds
        differently. None: as in the schedule that is applied, and True if there is none.
    precision : str
        The data type of factors in convolutions and products. ``model`` is ``bf16`` where all that
        the network multiplies is bfloat16 and the CPU has instructions for it, or the schedule to
        apply was made so, else ``fp32``. ``fp32`` is exact. On a CUDA device,
        ``tf32``, ``fp16`` and ``bf16`` round the factors to 11, 11 and 8 bits, for tensor cores. In
        ``fp16`` factors above 65504 overflow. On a CPU, ``bf16`` also stores values between
        operators so; ``auto`` does that where the CPU has instructions for it and the answers stay
        within ``tolerance``. Sums are always float32.
    tolerance : float
        The largest error that the precision ``auto`` may make on random inputs, in shares of the
        largest magnitude of an output. Operators that would make it larger stay in float32.
    cudnn : bool
        Whether convolutions on a CUDA device may use cuDNN where that is faster. The compiled
        network then needs cuDNN, too.
    database : path or None
        The file of the measurement database, which is created if it does not exist. What it
        contains is not measured again. Several processes may use it at once. None: measurements are
        not kept.
    strategies : sequence of str
        The kinds of stages that the search may form. ``concurrent``: groups run side by side.
        ``merge``: one operator replaces several. Without ``concurrent``, an operator that is not
        replaced gets a stage of its own. These are PS and TS of IOPS (section 3.1).
    """

    max_group_size: int | None = PruningLimits.max_group_size
    max_num_groups: int | None = PruningLimits.max_num_groups
    max_block_size: int = 50
    seed: int = 0
    measure_all: bool = False
    coverage: float = 0.7
    lcb_factor: InitVar[float | None] = None
    winograd: bool | None = None
    precision: PrecisionOption = MODEL
    tolerance: float = 0.03
    cudnn: bool = False
    database: str | os.PathLike[str] | None = None
    strategies: Sequence[str] = STRATEGIES

    def __post_init__(self, lcb_factor: float | None) -> None:
        named = () if isinstance(self.strategies, str) else tuple(self.strategies)
        if not named or len(set(named)) < len(named) or not set(named) <= set(STRATEGIES):
            given = self.strategies if not named else ",".join(map(str, named))
            raise OptionError(f"strategies must name concurrent, merge or both, got {given!r}.")
        if self.precision not in CHOICES:
            known = ", ".join(CHOICES)
            raise OptionError(f"precision must be one of {known}, got {self.precision!r}.")
        if not isinstance(self.tolerance, (int, float)) or not 0 <= self.tolerance < math.inf:
            raise OptionError(f"tolerance must be a number of at least 0, got {self.tolerance!r}.")
        for name in ("max_group_size", "max_num_groups", "max_block_size"):
            value = getattr(self, name)
            if value is None and name != "max_block_size":
                continue
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise OptionError(f"{name} must be a whole number of at least 1, got {value!r}.")
        if lcb_factor is not None:
            object.__setattr__(self, "coverage", _coverage(lcb_factor))
        if not isinstance(self.coverage, (int, float)) or not 0.5 <= self.coverage <= _MOST:
            raise OptionError(
                f"coverage must be a number from 0.5 to {_MOST}, got {self.coverage!r}."
            )

    @property
    def pruning(self) -> PruningLimits:
        """The pruning limits."""
        return PruningLimits(self.max_group_size, self.max_num_groups)

    def applying(self, schedule: Schedule | None) -> Options:
        """Return these options, completed from the schedule to apply, if there is one."""
        if schedule is None:
            return self
        options = self
        if self.precision in (AUTO, MODEL):
            narrow = any(rounds(operator.kernel) for operator in schedule.operators)
            options = replace(options, precision="bf16" if narrow else "fp32")
        if self.winograd is None:
            options = replace(options, winograd=schedule.winograd)
        return options


def _coverage(lcb_factor: float) -> float:
    """Return the coverage of bounds so many standard deviations below a normal prediction."""
    if not isinstance(lcb_factor, (int, float)) or not 0 <= lcb_factor < math.inf:
        raise OptionError(f"lcb_factor must be a number of at least 0, got {lcb_factor!r}.")
    return min(NormalDist().cdf(lcb_factor), _MOST)
