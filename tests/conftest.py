# SPDX-License-Identifier: Apache-2.0
"""What is made once for all tests, their order, and which of them CI lets be skipped."""

from __future__ import annotations

import os

import pytest

pytest.register_assert_rewrite("support")

from support import skips
from support.fixtures import caches, compiled, emulated, fake_driver, no_cache_of_the_user

__all__ = ["caches", "compiled", "emulated", "fake_driver", "no_cache_of_the_user"]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--slow-part",
        metavar="K/N",
        default="1/1",
        help="of the files of slow tests, every Nth from the Kth on",
    )


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
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
    _leave_out_slow(config, items)
    items.sort(key=lambda i: (i.get_closest_marker("slow") is None, len(i.path.parts)))


def _leave_out_slow(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the slow tests of the files that are not in the part that was asked for."""
    number, count = map(int, config.getoption("--slow-part").split("/"))
    slow = [item for item in items if item.get_closest_marker("slow")]
    chosen = sorted({item.path for item in slow})[number - 1 :: count]
    left_out = {item for item in slow if item.path not in chosen}
    items[:] = [item for item in items if item not in left_out]
    config.hook.pytest_deselected(items=left_out)


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
