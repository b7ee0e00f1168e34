# SPDX-License-Identifier: Apache-2.0
"""A real browser without a window; the tests are skipped where there is none."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

_BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """That of TVM_IOS_BROWSER, else the system's, else the one that playwright has downloaded."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    path = os.environ.get("TVM_IOS_BROWSER") or next(
        filter(None, map(shutil.which, _BROWSERS)), None
    )
    with playwright.sync_playwright() as driver:
        try:
            # Root may not have Chromium's sandbox; the pages are our own.
            found = driver.chromium.launch(executable_path=path, args=["--no-sandbox"])
        except playwright.Error as error:
            pytest.skip(f"no browser could be started: {str(error).splitlines()[0]}")
        yield found
        found.close()


@pytest.fixture
def opened(browser: Browser, tmp_path: Path) -> Iterator[Callable[..., Page]]:
    """Opens text as a file in the browser; in the end, nothing was thrown, logged or fetched."""
    pages: list[Page] = []
    complaints: list[str] = []

    def open_text(text: str, name: str = "s.html", **settings: str) -> Page:
        path = tmp_path / name
        path.write_text(text, "utf-8")
        page = browser.new_page(viewport={"width": 1200, "height": 800}, **settings)
        pages.append(page)
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("dialog", lambda dialog: (complaints.append(dialog.message), dialog.dismiss()))
        page.on("request", lambda request: _note(complaints, request.url, path.as_uri()))
        page.goto(path.as_uri())
        return page

    yield open_text
    for page in pages:
        page.close()
    assert complaints == []


def _note(complaints: list[str], url: str, own: str) -> None:
    if url != own and not url.startswith(("data:", "about:")):
        complaints.append(f"the page asked for {url}")
