# SPDX-License-Identifier: Apache-2.0
"""What the measurements of other networks save a search, on simulated devices."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path

from tvm_ios.database import MeasurementDatabase

from .machine import Machine
from .recorded import Recorded
from .search import Outcome, replay


def after_others(
    device: Recorded, others: Sequence[Recorded], machine: Callable[[int], Machine], seed: int
) -> list[Outcome]:
    """Search a network after none, one, two ... of the others.

    Parameters
    ----------
    device : Recorded
        The network.
    others : sequence of Recorded
        The other networks, in the order in which they are searched.
    machine : callable
        Returns a machine of a seed.
    seed : int
        The seed of all searches.

    Returns
    -------
    list of Outcome
        Those of the network, by the number of others whose measurements were in the database.
    """
    with tempfile.TemporaryDirectory() as directory:
        known, copy = Path(directory) / "known.sqlite3", Path(directory) / "copy.sqlite3"

        def search(network: Recorded, path: Path) -> Outcome:
            with closing(MeasurementDatabase(path)) as database:
                return replay(network, machine(seed), seed, database)

        outcomes = [search(device, copy)]
        for other in others:
            search(other, known)
            shutil.copy(known, copy)
            outcomes.append(search(device, copy))
        return outcomes
