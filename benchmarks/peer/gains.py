# SPDX-License-Identifier: Apache-2.0
"""What the stages of a schedule gain, by how their operators run."""

from __future__ import annotations

from typing import Any

KINDS = ("side by side", "merged", "chained")


def gains_of(schedule: dict[str, Any]) -> dict[str, dict[str, float]]:
    """Return how many stages of each kind there are, and how much they gain.

    Parameters
    ----------
    schedule : dict
        A schedule, as it is written to a file.

    Returns
    -------
    dict of str to dict
        For each of :data:`KINDS` that there is, ``stages``, ``operators``, and ``gain_us``: the
        microseconds that the operators took one after another, less those that the stages took.
        Both are measurements of the search.
    """
    gains: dict[str, dict[str, float]] = {}
    for stage in schedule["stages"]:
        names = [name for group in stage["groups"] for name in group]
        if len(names) < 2:
            continue
        kind = _kind(stage)
        known = gains.setdefault(kind, {"stages": 0, "operators": 0, "gain_us": 0.0})
        known["stages"] += 1
        known["operators"] += len(names)
        if stage["apart"] is not None:
            known["gain_us"] += 1e6 * (stage["apart"] - stage["seconds"])
    return gains


def _kind(stage: dict[str, Any]) -> str:
    """Return how the operators of a stage of several run."""
    if stage["strategy"] == "merge":
        return KINDS[1]
    return KINDS[0] if len(stage["groups"]) > 1 else KINDS[2]
