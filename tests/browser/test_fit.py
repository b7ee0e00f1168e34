# SPDX-License-Identifier: Apache-2.0
"""A picture fits its pane, whenever that gets a size, until the reader moves it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from support.draw import large, small
from tvm_ios import Schedule, draw
from viewer_support import covered, middle, operator, place

if TYPE_CHECKING:
    from playwright.sync_api import FrameLocator, Page

pytestmark = pytest.mark.slow

Opened = Callable[..., "Page"]

SHOWN = {"width": 1200, "height": 800}

# How a frame has no size, or is not loaded, and what gives it one.
HIDDEN = {
    "a hidden tab": (
        '<div id="tab" style="display:none">{}</div>',
        "() => { document.getElementById('tab').style.display = 'block'; }",
    ),
    "no width": (
        '<div id="tab" style="width:0">{}</div>',
        "() => { document.getElementById('tab').style.width = 'auto'; }",
    ),
    "no height": (
        "{}<style id='flat'>iframe {{ height: 0 !important }}</style>",
        "() => document.getElementById('flat').remove()",
    ),
    "folded": ("<details>{}</details>", "() => { document.querySelector('details').open = true; }"),
    "far below": (
        '<div style="height:9000px"></div>{}',
        "() => document.querySelector('iframe').scrollIntoView()",
    ),
}


def notebook(schedule: Schedule, around: str = "{}") -> str:
    frame = schedule._repr_mimebundle_()["text/html"]
    return f"<!doctype html><title>notebook</title><body>{around.format(frame)}"


def loaded(page: Page) -> FrameLocator:
    frame = page.frame_locator("iframe")
    frame.locator("#view").wait_for(state="attached")
    return frame


@pytest.mark.parametrize("schedule", [small, large])
@pytest.mark.parametrize("kind", HIDDEN)
def test_it_fits_once_it_is_seen(
    opened: Opened, kind: str, schedule: Callable[[], Schedule]
) -> None:
    around, reveal = HIDDEN[kind]
    page = opened(notebook(schedule(), around))
    frame = loaded(page)
    page.evaluate(reveal)
    assert covered(frame) > 0.5
    assert place(operator(frame))["width"] > 50


def test_a_frame_that_is_loaded_when_it_is_seen(opened: Opened) -> None:
    lazy = notebook(small(), HIDDEN["far below"][0]).replace("<iframe", '<iframe loading="lazy"')
    page = opened(lazy)
    page.evaluate(HIDDEN["far below"][1])
    assert covered(loaded(page)) > 0.5


def test_without_a_size_it_is_as_the_file_has_it(opened: Opened) -> None:
    """So that it is whole where it is printed, or shown, before any script runs again."""
    around, reveal = HIDDEN["a hidden tab"]
    page = opened(notebook(small(), around))
    frame = loaded(page)
    paper = frame.locator(".paper")
    whole = f"0 0 {paper.get_attribute('width')} {paper.get_attribute('height')}"
    assert frame.locator("svg").get_attribute("viewBox") == whole
    page.evaluate(reveal)
    assert covered(frame) > 0.5
    assert frame.locator("svg").get_attribute("viewBox") != whole


def test_it_follows_the_size_of_its_window(opened: Opened) -> None:
    page = opened(draw.html([large()]))
    before = place(operator(page))["width"]
    page.set_viewport_size({"width": 600, "height": 800})
    assert covered(page) == pytest.approx(1.0)
    assert place(operator(page))["width"] == pytest.approx(before / 2, rel=0.01)
    page.set_viewport_size(SHOWN)
    assert covered(page) == pytest.approx(1.0)
    assert place(operator(page))["width"] == pytest.approx(before, rel=0.01)


def test_all_of_it_stays_all_of_it(opened: Opened) -> None:
    page = opened(draw.html([small()]))
    page.keyboard.press("0")
    page.set_viewport_size({"width": 500, "height": 300})
    covered(page)
    pane, paper = place(page.locator("#view")), place(page.locator(".paper"))
    assert paper["width"] <= pane["width"] + 1
    assert paper["height"] == pytest.approx(pane["height"], abs=1)


MOVES: dict[str, Callable[[Page], None]] = {
    "wheel": lambda page: page.mouse.wheel(0, -400),
    "keys": lambda page: page.keyboard.press("ArrowDown"),
    "button": lambda page: page.click("#in"),
    "search": lambda page: (page.fill("#search", "joined"), page.press("#search", "Enter")),
}


@pytest.mark.parametrize("how", MOVES)
def test_where_the_reader_has_moved_it_it_stays(opened: Opened, how: str) -> None:
    page = opened(draw.html([small()]))
    page.mouse.move(600, 500)
    before = middle(operator(page))
    MOVES[how](page)
    covered(page)
    width, moved = place(operator(page))["width"], middle(operator(page))
    assert moved != pytest.approx(before, abs=1)
    page.set_viewport_size({"width": 900, "height": 600})
    covered(page)
    # What was in the middle is in the middle, as large as it was.
    assert place(operator(page))["width"] == pytest.approx(width, rel=0.001)
    assert middle(operator(page)) == pytest.approx((moved[0] - 150, moved[1] - 100), abs=1)


def test_what_is_hidden_and_shown_again_stays(opened: Opened) -> None:
    page = opened(notebook(small(), '<div id="tab">{}</div>'))
    frame = loaded(page)
    frame.locator("#in").click()
    frame.locator("#in").click()
    covered(frame)
    before = place(operator(frame))
    page.evaluate("() => { document.getElementById('tab').style.display = 'none'; }")
    page.evaluate(HIDDEN["a hidden tab"][1])
    covered(frame)
    assert place(operator(frame)) == pytest.approx(before, abs=1)
    frame.locator("#all").click()  # and is given back
    assert place(operator(frame))["width"] < before["width"]


def test_a_notebook_scrolls_over_it(opened: Opened) -> None:
    """Until the reader clicks into the picture, the wheel is the notebook's."""
    page = opened(notebook(small(), '{}<div style="height:9000px"></div>'))
    frame = loaded(page)
    width = place(operator(frame))["width"]
    page.mouse.move(600, 400)
    page.mouse.wheel(0, 100)
    page.wait_for_function("() => scrollY > 0")
    covered(frame)
    assert place(operator(frame))["width"] == pytest.approx(width)
    scrolled = page.evaluate("scrollY")
    page.mouse.click(600, 400)
    page.mouse.wheel(0, -300)
    covered(frame)
    assert place(operator(frame))["width"] > 1.3 * width
    assert page.evaluate("scrollY") == scrolled


def test_print_has_the_picture_and_no_tools(opened: Opened) -> None:
    page = opened(draw.html([large()]))
    page.emulate_media(media="print")
    assert covered(page) == pytest.approx(1.0)
    assert place(page.locator("#view"))["y"] == 0
    assert page.locator("#search").is_hidden()
