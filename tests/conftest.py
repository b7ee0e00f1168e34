# SPDX-License-Identifier: Apache-2.0
"""What is made once for all tests, and which of them may be skipped where none may be lost."""

from __future__ import annotations

import os

import pytest

pytest.register_assert_rewrite("support")

from support import skips
from support.fixtures import caches, compiled, emulated, no_cache_of_the_user, standin

__all__ = ["caches", "compiled", "emulated", "no_cache_of_the_user", "standin"]


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail where ``TVM_IOS_STRICT_SKIPS`` is set and a test was skipped for want of a package."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if reporter is None or not os.environ.get("TVM_IOS_STRICT_SKIPS"):
        return
    unknown = skips.unknown(reporter.stats.get("skipped", []))
    for line in unknown:
        reporter.write_line(f"skipped, and not in tests/support/skips.py: {line}", red=True)
    if unknown:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
