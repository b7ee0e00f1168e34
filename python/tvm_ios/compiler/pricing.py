# SPDX-License-Identifier: Apache-2.0
"""The cost model of a search, and the kernels that it was made for."""

from __future__ import annotations

from typing import Any

from ..backend.base import Backend
from ..backend.shared.stages import AnyAssembler
from ..database import MeasurementDatabase
from ..measure.cost import MeasuredCost
from ..measure.devices import AnyDevices
from ..measure.records import Records
from ..schedule.options import Options
from ..search.cost_model import CostModel


def measure_prices(
    backend: Backend[Any, Any, Any],
    assembler: AnyAssembler,
    devices: AnyDevices,
    options: Options,
    database: MeasurementDatabase | None,
) -> tuple[CostModel, AnyAssembler]:
    """Choose the fastest kernels and time every operator alone.

    Parameters
    ----------
    backend : Backend
    assembler : Assembler
    devices : Devices
        What measures.
    options : Options
    database : MeasurementDatabase or None
        Keeps what is measured.

    Returns
    -------
    cost : CostModel
        Prices stages: it measures every one of them, or those that its model cannot rule out.
    assembler : Assembler
        With the kernels that were chosen.
    """
    # xgboost takes a second to import, and prices that are given do not need it.
    from ..measure.learned import Examples, LatencyModel, LearnedCost

    records = Records(database, backend.identity(), backend.conditions(assembler))
    assembler = backend.tune(assembler, devices, records)
    measured = MeasuredCost.begin(devices, assembler, records)
    if options.measure_all:
        return measured, assembler
    model = LatencyModel(options.seed, options.caution)
    learned = LearnedCost.begin(measured, assembler, Examples(records), model, options.seed)
    return learned, assembler
