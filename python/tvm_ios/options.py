# SPDX-License-Identifier: Apache-2.0
"""Options of the search."""

from .schedule.options import PRECISIONS, Options

__all__ = ["PRECISIONS", "Options"]
