# SPDX-License-Identifier: Apache-2.0
"""Tests of what only a GPU can show; without one all of them are skipped."""

from __future__ import annotations

from pathlib import Path

import pytest

from tvm_ios_env.gpu import gpus


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    reason = gpus().reason
    here = Path(__file__).parent
    for item in items:
        if reason and here in item.path.parents:
            item.add_marker(pytest.mark.skip(reason=reason))
