# SPDX-License-Identifier: Apache-2.0
"""Drawings of schedules: stages as bands, groups as lanes, and edges between operators.

A drawing needs only the schedule. Schedules of earlier releases do not record what their operators
read, and are drawn without edges.
"""

from ..schedule.schedule import drawings
from .dot import dot
from .html import frame, html
from .perfetto import perfetto
from .svg import svg

__all__ = ["dot", "frame", "html", "perfetto", "svg"]

drawings["text/html"] = frame
drawings["image/svg+xml"] = lambda schedule: svg([schedule])
