# SPDX-License-Identifier: Apache-2.0
"""A schedule draws itself in a notebook: on its page from nbconvert, and in JupyterLab."""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from support.draw import small
from viewer_support import covered, operator, place

if TYPE_CHECKING:
    from playwright.sync_api import Browser, FrameLocator, Page, Route

pytest.importorskip("jupyterlab", reason="jupyterlab is not installed")

pytestmark = pytest.mark.slow

WAIT = 120  # seconds in which a program starts or ends, or JupyterLab loads itself

LINES = 60  # more than a screen has
PROSE = "\n\n".join(f"Paragraph {number} above the picture." for number in range(LINES))
CELL = "import tvm_ios\n\ntvm_ios.Schedule.load('schedule.json')"
KERNEL = {"name": "python3", "display_name": "Python 3", "language": "python"}


@pytest.fixture(scope="module")
def surroundings(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment of a newcomer: an empty home, and none of Jupyter's settings."""
    home = tmp_path_factory.mktemp("home")
    others = {name: value for name, value in os.environ.items() if not name.startswith("JUPYTER")}
    folders = {f"JUPYTER_{kind}_DIR": home / kind for kind in ("CONFIG", "DATA", "RUNTIME")}
    own = {"HOME": home, "IPYTHONDIR": home / "ipython", **folders}
    return {**others, **{name: str(path) for name, path in own.items()}}


@pytest.fixture(scope="module")
def notebook(surroundings: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An executed notebook in which a schedule draws itself as in the tutorials, below a text.

    A file beside it, ``others.ipynb``, is as somebody else's who is not trusted.
    """
    # Not above: it takes a second, also where none of these tests runs.
    nbformat = pytest.importorskip("nbformat", reason="nbformat is not installed")
    path = tmp_path_factory.mktemp("notebooks") / "drawn.ipynb"
    small().save(path.parent / "schedule.json")
    cells = [nbformat.v4.new_markdown_cell(PROSE), nbformat.v4.new_code_cell(CELL)]
    nbformat.write(nbformat.v4.new_notebook(cells=cells, metadata={"kernelspec": KERNEL}), path)
    run(surroundings, "nbconvert", "--execute", "--to=notebook", "--inplace", path)
    run(surroundings, "trust", path)
    executed = nbformat.read(path, as_version=4)
    del executed.cells[0]  # what is trusted is a content, wherever it is
    nbformat.write(executed, path.with_name("others.ipynb"))
    return path


@pytest.fixture(scope="module")
def lab(surroundings: dict[str, str], notebook: Path) -> Iterator[str]:
    """The address of notebooks in JupyterLab, with a place for their names."""
    log, token = Path(surroundings["HOME"]) / "log", secrets.token_hex(16)
    settings = Path(surroundings["JUPYTER_CONFIG_DIR"])
    (settings / "labconfig").mkdir(parents=True)
    server = {"ip": "127.0.0.1", "port": 0, "allow_root": True, "open_browser": False}
    config = {"ServerApp": server, "IdentityProvider": {"token": token}}
    (settings / "jupyter_server_config.json").write_text(json.dumps(config))
    # The outputs are there; a server that is ended while a kernel starts may wait for ever.
    no_kernel = {"LabApp": {"notebook_starts_kernel": False}}
    (settings / "jupyter_lab_config.json").write_text(json.dumps(no_kernel))
    # It would ask PyPI for newer versions.
    page = {"disabledExtensions": {"@jupyterlab/apputils-extension:announcements": True}}
    (settings / "labconfig" / "page_config.json").write_text(json.dumps(page))
    with log.open("wb") as written:
        command = [sys.executable, "-m", "jupyterlab"]
        process = subprocess.Popen(
            command, cwd=notebook.parent, env=surroundings, stdout=written, stderr=written
        )
    said = Path(surroundings["JUPYTER_RUNTIME_DIR"]) / f"jpserver-{process.pid}.json"
    try:
        yield f"{_address(process, said, log)}lab/tree/{{}}?reset&token={token}"
    finally:
        process.kill()  # it has nothing to put in order
        process.wait()


def run(surroundings: dict[str, str], *arguments: str | Path) -> None:
    command = [sys.executable, "-m", "jupyter", *arguments]
    done = subprocess.run(
        command, env=surroundings, capture_output=True, text=True, timeout=WAIT, check=False
    )
    assert done.returncode == 0, done.stderr


def _address(process: subprocess.Popen[bytes], said: Path, log: Path) -> str:
    """Where a server says that it listens."""
    deadline = time.monotonic() + WAIT
    while time.monotonic() < deadline and process.poll() is None:
        try:
            return json.loads(said.read_text())["url"]
        except (FileNotFoundError, json.JSONDecodeError):  # not yet, or half of it
            time.sleep(0.1)
    raise AssertionError(f"JupyterLab does not come up:\n{log.read_text()}")


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """A page that is given nothing from elsewhere."""
    found = browser.new_page(viewport={"width": 1200, "height": 800})
    found.set_default_timeout(1000 * WAIT)
    found.route("**/*", _keep_here)
    yield found
    found.close()


def _keep_here(route: Route) -> None:
    here = route.request.url.startswith(("file:", "data:", "http://127.0.0.1:", "ws://127.0.0.1:"))
    route.continue_() if here else route.abort()


def _check_that_it_is_seen(page: Page) -> FrameLocator:
    """Scroll to the picture, which then is as large as its frame allows, and legible."""
    frame = page.frame_locator("iframe")
    deadline = time.monotonic() + WAIT
    # JupyterLab may move what is there while it puts the rest of a notebook in place.
    while time.monotonic() < deadline:
        page.locator("iframe").scroll_into_view_if_needed()
        if covered(frame) > 0.5:
            break
    assert covered(frame) > 0.5
    assert place(operator(frame))["width"] > 100
    return frame


def test_on_a_page_of_nbconvert(
    surroundings: dict[str, str], notebook: Path, page: Page, tmp_path: Path
) -> None:
    run(surroundings, "nbconvert", "--to=html", f"--output-dir={tmp_path}", notebook)
    page.goto((tmp_path / "drawn.html").as_uri(), wait_until="domcontentloaded")
    _check_that_it_is_seen(page)


def test_in_jupyterlab(lab: str, page: Page) -> None:
    """It loads the frames of a notebook before it gives them a size."""
    page.goto(lab.format("drawn.ipynb"))
    frame = _check_that_it_is_seen(page)
    width = place(operator(frame))["width"]
    operator(frame).click()
    page.mouse.wheel(0, -200)
    page.set_viewport_size({"width": 1000, "height": 700})
    assert covered(frame) > 0.5
    assert place(operator(frame))["width"] > 1.2 * width


def test_in_a_notebook_that_is_not_trusted(lab: str, page: Page) -> None:
    """It has no frames, and the cell would be empty."""
    page.goto(lab.format("others.ipynb"))
    output = page.locator(".jp-OutputArea-output")
    assert "once the notebook is trusted" in output.inner_text()
    assert output.locator("iframe").count() == 0
