# SPDX-License-Identifier: Apache-2.0
"""What a search remembers of what it measured."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from support.database import HERE
from tvm_ios.database import MeasurementDatabase
from tvm_ios.measure.cache import MeasurementCache, WorkloadKey

STAGE = WorkloadKey("a", (), "a", "conv")


@pytest.mark.parametrize("succeeds_later", [False, True])
def test_a_failure_is_remembered_after_a_success(tmp_path: Path, succeeds_later: bool) -> None:
    """Also by the next search, which has but the database."""
    path = tmp_path / "m.sqlite3"
    with closing(MeasurementDatabase(path)) as database:
        cache = MeasurementCache(database, HERE)
        cache.add(STAGE, {"tiles": [2.0], "bands": [1.0]})
        cache.fail(STAGE, "bands")
        if succeeds_later:
            cache.add(STAGE, {"tiles": [2.0], "bands": [1.0]})
        assert cache.failed("a") == {"bands"}
        assert cache.samples("a").keys() == {"tiles"}
    with closing(MeasurementDatabase(path)) as database:
        later = MeasurementCache(database, HERE)
        later.lookup([STAGE])
        assert later.failed("a") == {"bands"}
        assert later.samples("a") == cache.samples("a")
