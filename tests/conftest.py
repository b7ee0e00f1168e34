# SPDX-License-Identifier: Apache-2.0
"""What is made once for all tests, their order, and which of them CI lets be skipped."""

from __future__ import annotations

import os

import pytest

pytest.register_assert_rewrite("support")

from support import skips
from support.fixtures import caches, compiled, emulated, fake_driver, no_cache_of_the_user

__all__ = ["caches", "compiled", "emulated", "fake_driver", "no_cache_of_the_user"]


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put slow tests and long files first, so that no process is left alone with them in the end.

    The files of whole networks are long, and lie above those of single rooms and kernels. Narrow
    vectors are slow ones but in the first case of each test, since the machine's own vectors are
    tried in all.
    """
    tried = set()
    for item in items:
        narrow = item.get_closest_marker("narrow")
        if narrow is not None:
            case = (item.path, getattr(item, "originalname", item.name), *narrow.args)
            if case in tried:
                item.add_marker(pytest.mark.slow)
            tried.add(case)
    items.sort(key=lambda i: (i.get_closest_marker("slow") is None, len(i.path.parts)))


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail where ``TVM_IOS_STRICT_SKIPS`` is set and a test was skipped for want of a package."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if reporter is None or not os.environ.get("TVM_IOS_STRICT_SKIPS"):
        return
    unknown = skips.unknown(reporter.stats.get("skipped", []))
    reporter.ensure_newline()
    for line in unknown:
        reporter.write_line(f"skipped, and not in tests/support/skips.py: {line}", red=True)
    if unknown:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
