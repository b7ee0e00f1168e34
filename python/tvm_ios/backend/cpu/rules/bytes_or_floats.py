# SPDX-License-Identifier: Apache-2.0
"""Whether an operator that can multiply bytes does so, or multiplies float32.

Instructions for bytes are always faster. Processors that have none multiply bytes by several others
(:mod:`~..isa.dot4`). These are faster than the direct kernels of float32, but not always than
Winograd's algorithm, which multiplies float32 only.
"""

from __future__ import annotations

from ....graph.operators import Operator
from ....schedule.rounding import INT8
from ....sizes.size import AnySize, hint_of
from ..core import Core
from ..kernels.conv.fold import folds
from ..kernels.factors import Factors, dot4_of
from ..kernels.winograd.model import choose_winograd, predicted_times, variant_name
from .base import LoweringConfig
from .precision import PROMISING, conv_of

_ALWAYS = 2.5  # times the speed of float32: no other kernel is faster
_FEW_ROWS = 4  # of a product, whose time is that of reading its weights


def speed_of(factors: Factors, core: Core) -> float:
    """Return how many times faster quads are multiplied than float32; a core without is asked to.

    Only tests make such a core multiply quads.
    """
    found = dot4_of(factors, core)
    return _ALWAYS if found is None else found.speed


def faster_in_bytes(
    op: Operator, factors: Factors, config: LoweringConfig, rows: AnySize = 0
) -> bool:
    """Return whether an operator is predicted to be faster if it multiplies bytes.

    Parameters
    ----------
    op : Operator
        A convolution or a product by weights.
    factors : Factors
        What it multiplies by.
    config : LoweringConfig
        The lowering config.
    rows : int or Size
        Those of a product.
    """
    speed = speed_of(factors, config.core)
    if speed >= _ALWAYS or 0 < hint_of(rows) <= _FEW_ROWS:
        return True
    if speed < 1.0:
        return False
    if op.kind != "conv2d" or not config.winograd:
        return True
    conv, core = conv_of(op).hinted, config.core
    if conv.channels < core.lanes and not folds(conv):
        return True  # the image is row-major, which Winograd's algorithm does not read
    return choose_winograd(conv, core, config.workers, config.balance, speed) is None


def promising(
    op: Operator, chosen: str, factors: Factors, config: LoweringConfig
) -> tuple[str, ...]:
    """Return which kernels of an operator may be as fast as the ``chosen`` one, which is first.

    The operator can multiply bytes.
    """
    speed = speed_of(factors, config.core)
    if speed >= _ALWAYS:
        return (chosen,)
    direct = variant_name(None)
    times = {direct: 1.0}
    if op.kind == "conv2d" and config.winograd:
        core, workers, balance = config.core, config.workers, config.balance
        times = predicted_times(conv_of(op), core, workers, balance, 1.0)
    times[INT8] = times[direct] / speed
    limit = PROMISING * min(times.values())
    likely = sorted((name for name, time in times.items() if time <= limit), key=times.__getitem__)
    return (chosen, *(name for name in likely if name != chosen))
