# SPDX-License-Identifier: Apache-2.0
"""The machine's balance: measured once, kept in the database, and typical for other machines."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest
import tvm

from support.networks import NATIVE
from tvm_ios.backend.cpu.core import TYPICAL
from tvm_ios.backend.cpu.measure import balance
from tvm_ios.backend.cpu.measure.balance import _measure, machine_balance
from tvm_ios.database import MeasurementDatabase
from tvm_ios.target import num_workers


@pytest.fixture(autouse=True)
def measured(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is measured indeed, as the other tests have a typical one."""
    monkeypatch.setattr(balance, "_measure", _measure)


def test_a_vector_from_memory_takes_no_less_than_one_from_afar() -> None:
    found, seconds = machine_balance(NATIVE), _measure(str(NATIVE))
    assert 0 < found.far <= found.memory
    assert found.multiply_add == seconds["multiply_add"] * num_workers(NATIVE)
    assert 1e-12 < seconds["multiply_add"] < min(seconds["far"], seconds["memory"]) < 1e-5


def test_a_database_keeps_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with closing(MeasurementDatabase(tmp_path / "m.sqlite3")) as database:
        found = machine_balance(NATIVE, database)
        assert found == machine_balance(NATIVE)
        monkeypatch.setattr(balance, "_measure", None)  # whoever measures fails
        assert machine_balance(NATIVE, database) == found


def test_another_machine_has_a_typical_one() -> None:
    triple = "aarch64-linux-gnu" if "x86" in str(NATIVE) else "x86_64-linux-gnu"
    target = tvm.target.Target({"kind": "llvm", "mtriple": triple, "num-cores": 2})
    assert machine_balance(target) == TYPICAL
