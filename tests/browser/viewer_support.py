# SPDX-License-Identifier: Apache-2.0
"""Where on the screen a drawn schedule is, on a page of its own or in a frame."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from playwright.sync_api import FrameLocator, Locator, Page

    Viewer: TypeAlias = Page | FrameLocator

COVERED = """
(pane) => {
  const [frame, paper] = [pane, pane.querySelector(".paper")].map(
    (element) => element.getBoundingClientRect());
  const shared = (low, high) =>
    Math.max(0, Math.min(frame[high], paper[high]) - Math.max(frame[low], paper[low]));
  return shared("left", "right") * shared("top", "bottom") / (frame.width * frame.height);
}
"""
# A browser draws no frames of what is not on its screen, such as below the end of a scrolled page.
FRAMES = """
() => new Promise((done) => {
  requestAnimationFrame(() => requestAnimationFrame(done));
  setTimeout(done, 1000);
})
"""


def operator(viewer: Viewer, number: int = 0) -> Locator:
    return viewer.locator(".op").nth(number)


def place(element: Locator) -> dict[str, float]:
    box = element.bounding_box()
    assert box is not None
    return box


def middle(element: Locator) -> tuple[float, float]:
    box = place(element)
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


def covered(viewer: Viewer) -> float:
    """The share of the pane that the drawing covers, once the browser has drawn it."""
    viewer.locator("#view").evaluate(FRAMES)
    return viewer.locator("#view").evaluate(COVERED)
