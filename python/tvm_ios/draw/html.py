# SPDX-License-Identifier: Apache-2.0
"""Drawings as a self-contained HTML page with zoom, tooltips and search."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from importlib import resources

from ..schedule.schedule import Schedule
from .svg import spoken, svg
from .words import heading

_FRAME_HEIGHT = 640  # pixels in a notebook

# Browsers do not show the text between a frame's tags. An untrusted notebook removes the tags and
# shows the text.
_NO_FRAME = (
    "A schedule is drawn here once the notebook is trusted: run this cell, or call "
    "'jupyter trust' with the notebook's file."
)

# The page loads nothing from elsewhere, and the policy enforces that.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"

_PAGE = """\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<link rel="icon" href="data:,">
<title>{title}</title>
<style>
{style}</style>
</head>
<body>
<header>
<input id="search" type="search" placeholder="find an operator" aria-label="find an operator">
<output id="found" for="search"></output>
<span id="keys">Enter: next · drag: move · wheel: zoom · 0: all</span>
<button id="out" title="smaller" aria-label="smaller">−</button>
<button id="in" title="larger" aria-label="larger">+</button>
<button id="all" title="the whole picture">all</button>
</header>
<main id="view" tabindex="0">
{picture}</main>
<div id="tip" role="tooltip" hidden></div>
<script>
{script}</script>
</body>
</html>
"""


def html(schedules: Sequence[Schedule], titles: Sequence[str] = ()) -> str:
    """Draw schedules side by side as one HTML page that needs no other file and no network.

    The parameters and errors are those of :func:`tvm_ios.draw.svg`.
    """
    return _PAGE.format(
        policy=_POLICY,
        title=spoken(" | ".join(titles) or heading(schedules[0])[0]),
        style=_resource("viewer.css"),
        picture=svg(schedules, titles),
        script=_resource("viewer.js"),
    )


def frame(schedule: Schedule) -> str:
    """Return the page as an iframe, which isolates its styles and scripts from a notebook's."""
    page = escape(html([schedule]))
    look = f"width:100%;height:{_FRAME_HEIGHT}px;border:0"
    attributes = f'srcdoc="{page}" style="{look}" sandbox="allow-scripts"'
    return f"<iframe {attributes}>{_NO_FRAME}</iframe>"


def _resource(name: str) -> str:
    return resources.files(__package__).joinpath(name).read_text("utf-8")
