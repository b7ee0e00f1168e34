# SPDX-License-Identifier: Apache-2.0
"""The page of ``tvm-ios show --format html`` as people use it, in a real browser."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from support.draw import HOSTILE, NASNET_OPERATORS, hostile, large, small
from tvm_ios import draw
from viewer_support import middle, operator, place

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.slow

Opened = Callable[..., "Page"]

LEGIBLE = 4.5  # contrast of text, by WCAG

# The contrast between the text of the first element and what the second is filled with.
CONTRAST = """
([text, ground, property]) => {
  const light = (name, key) => {
    const colour = getComputedStyle(document.querySelector(name))[key];
    const linear = colour.match(/[0-9.]+/g).slice(0, 3).map((value) => {
      const share = value / 255;
      return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2];
  };
  const [dark, bright] = [light(text, property), light(ground, "fill")].sort((a, b) => a - b);
  return (bright + 0.05) / (dark + 0.05);
}
"""


@pytest.fixture(params=["small", "large"])
def page(request: pytest.FixtureRequest, opened: Opened) -> Page:
    return opened(draw.html([small() if request.param == "small" else large()]))


def test_texts_stay_in_their_boxes(opened: Opened) -> None:
    first, *others = small().operators
    long = replace(first, kind="depthwise_conv2d_of_a_kind", seconds=999.94e-6)
    named = replace(others[-1], name="encoder_layer_11_attention_output_dense_2")
    schedule = replace(small(), operators=(long, *others[:-1], named))
    stages = (*schedule.stages[:-1], replace(schedule.stages[-1], groups=((named.name,),)))
    page = opened(draw.html([replace(schedule, stages=stages)]))
    for element in page.locator(".op").all():
        box = place(element.locator(".box"))
        for text in element.locator("text").all():
            inner = place(text)
            assert box["x"] < inner["x"]
            assert inner["x"] + inner["width"] < box["x"] + box["width"]


def test_it_renders(page: Page) -> None:
    assert page.locator(".op").count() in (7, NASNET_OPERATORS)
    box = place(operator(page))
    assert box["width"] > 50
    assert box["height"] > 12
    assert "operators in" in page.title()
    assert page.locator("#tip").is_hidden()


def test_hovering_tells_what_is_known(page: Page) -> None:
    name = operator(page).get_attribute("data-name")
    operator(page).hover()
    text = page.locator("#tip").inner_text()
    assert text.startswith(f"{name}\n")
    assert "float32[1, " in text
    assert "FLOP" in text
    assert "µs alone" in text
    near = page.locator(".edge.near")
    assert near.count() > 0
    ends = near.evaluate_all("edges => edges.map((e) => [e.dataset.from, e.dataset.to])")
    assert all(name in pair for pair in ends)
    page.mouse.move(600, 10)
    assert page.locator("#tip").is_hidden()
    assert near.count() == 0


def test_the_wheel_zooms_where_it_points(page: Page) -> None:
    before, (x, y) = place(operator(page)), middle(operator(page))
    page.mouse.move(x, y)
    page.mouse.wheel(0, -300)
    page.wait_for_function("w => document.querySelector('.op').getBoundingClientRect().width > w",
                           arg=1.3 * before["width"])  # fmt: skip
    assert middle(operator(page)) == pytest.approx((x, y), abs=2)
    page.mouse.wheel(0, 600)
    page.wait_for_function("w => document.querySelector('.op').getBoundingClientRect().width < w",
                           arg=before["width"])  # fmt: skip


def test_dragging_moves(page: Page) -> None:
    x, y = middle(operator(page))
    page.mouse.move(600, 500)
    page.mouse.down()
    page.mouse.move(560, 530, steps=4)
    page.mouse.up()
    assert middle(operator(page)) == pytest.approx((x - 40, y + 30), abs=1)
    page.mouse.move(600, 540)  # it is let go
    assert middle(operator(page)) == pytest.approx((x - 40, y + 30), abs=1)


def test_all_of_it_can_be_seen(page: Page) -> None:
    page.click("#all")
    pane = place(page.locator("#view"))
    for number in (0, page.locator(".op").count() - 1):
        x, y = middle(operator(page, number))
        assert pane["x"] < x < pane["x"] + pane["width"]
        assert pane["y"] < y < pane["y"] + pane["height"]
    width = place(operator(page))["width"]
    page.click("#in")
    assert place(operator(page))["width"] == pytest.approx(1.25 * width, rel=0.02)
    page.click("#out")
    assert place(operator(page))["width"] == pytest.approx(width, rel=0.02)


def test_the_keyboard_does_it_too(page: Page) -> None:
    width, (x, _) = place(operator(page))["width"], middle(operator(page))
    page.keyboard.press("ArrowRight")
    assert middle(operator(page))[0] == pytest.approx(x - 60, abs=1)
    page.keyboard.press("+")
    assert place(operator(page))["width"] > width
    page.keyboard.press("/")
    page.keyboard.type("0")  # goes into the search now
    assert page.input_value("#search") == "0"


def test_search_finds_and_goes_there(page: Page) -> None:
    names = page.locator(".op").evaluate_all("ops => ops.map((op) => op.dataset.name)")
    wanted = names[-1]
    page.fill("#search", wanted.upper())
    assert page.locator("#found").inner_text() == "1 found"
    assert page.locator(".op.hit").count() == 1
    page.press("#search", "Enter")
    assert page.locator("#found").inner_text() == "1 of 1"
    pane, (x, y) = place(page.locator("#view")), middle(page.locator(".op.hit"))
    assert (x, y) == pytest.approx(
        (pane["x"] + pane["width"] / 2, pane["y"] + pane["height"] / 2), abs=2
    )
    assert page.locator("#tip").inner_text().startswith(wanted)
    page.fill("#search", "no such operator")
    assert page.locator("#found").inner_text() == "0 found"
    page.press("#search", "Enter")
    page.press("#search", "Escape")
    assert page.locator("#found").inner_text() == ""
    assert page.locator(".searching, .hit").count() == 0


def test_search_goes_round(opened: Opened) -> None:
    page = opened(draw.html([small()]))
    page.fill("#search", "left")  # and left_next
    for number in (1, 2, 1):
        page.press("#search", "Enter")
        assert page.locator("#found").inner_text() == f"{number} of 2"
    page.press("#search", "Shift+Enter")
    assert page.locator("#found").inner_text() == "2 of 2"


def test_names_are_only_ever_text(opened: Opened) -> None:
    page = opened(draw.html([hostile()], ["</title><script>throw 1</script>"]))
    assert page.locator(".op").count() == len(HOSTILE)
    for number, name in enumerate(HOSTILE[:2]):
        operator(page, number).hover()
        assert page.locator("#tip").inner_text().startswith(name)
    page.fill("#search", "<img")
    assert page.locator("#found").inner_text() == "1 found"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_is_legible(opened: Opened, scheme: str) -> None:
    page = opened(draw.html([small()]), color_scheme=scheme)
    pairs = [
        (".op .name", ".op .box", "fill"),
        (".op .about", ".op .box", "fill"),
        (".stage .strong", ".band", "fill"),
        (".stage .faint", ".band", "fill"),
        (".title", ".paper", "fill"),
        ("body", ".paper", "color"),
    ]
    for pair in pairs:
        assert page.evaluate(CONTRAST, list(pair)) >= LEGIBLE, pair
    bright = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (bright == "rgb(255, 255, 255)") == (scheme == "light")


def test_two_schedules_side_by_side(opened: Opened) -> None:
    page = opened(draw.html([small(), small()], ["a.json", "b.json"]))
    left, right = (page.locator(".picture").nth(i).locator(".op").first for i in range(2))
    assert place(left)["x"] + place(left)["width"] < place(right)["x"]
    left.hover()
    assert page.locator(".op.near").count() == 2
    page.fill("#search", "joined")
    page.press("#search", "Enter")
    page.press("#search", "Enter")
    pane = place(page.locator("#view"))
    x, _ = middle(page.locator(".picture").nth(1).locator(".hit"))
    assert x == pytest.approx(pane["x"] + pane["width"] / 2, abs=2)


def test_in_a_notebook(opened: Opened) -> None:
    frame = large()._repr_mimebundle_()["text/html"]
    page = opened(f"<!doctype html><title>notebook</title><body>{frame}</body>")
    inner = page.frame_locator("iframe")
    inner.locator(".op").first.hover()
    assert "µs alone" in inner.locator("#tip").inner_text()


def test_the_svg_stands_by_itself(opened: Opened) -> None:
    page = opened(draw.svg([large()]), "s.svg")
    assert page.locator(".op").count() == NASNET_OPERATORS
    assert place(operator(page))["width"] > 50
