# SPDX-License-Identifier: Apache-2.0
"""Pictures of schedules: stages as bands, their groups as lanes, and what passes between operators.

A picture needs nothing but the schedule. Those that were saved by earlier releases do not say what
their operators read, and are drawn without edges.
"""

from ..schedule.schedule import drawings
from .dot import dot
from .html import frame, html
from .perfetto import perfetto
from .svg import svg

__all__ = ["dot", "frame", "html", "perfetto", "svg"]

drawings["text/html"] = frame
drawings["image/svg+xml"] = lambda schedule: svg([schedule])
