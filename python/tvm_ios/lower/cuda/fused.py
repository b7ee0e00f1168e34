# SPDX-License-Identifier: Apache-2.0
"""Operators of several groups in one launch."""

from __future__ import annotations

from collections.abc import Sequence

from ...kernels.cuda.horizontal import fuse
from ..implement import Implementation
from .preferences import CudaPreferences
from .stage import Launch, identity


def fused_launch(parts: Sequence[Implementation], preferences: CudaPreferences) -> Launch:
    """Independent operators as one launch, on the first stream.

    Parameters
    ----------
    parts : sequence of Implementation
        In the order in which their blocks are numbered.
    preferences : CudaPreferences
    """
    if len(parts) == 1:
        return Launch(parts[0].kernel, 0, parts[0].inputs, parts[0].outputs)
    inputs = {identity(value): value for part in parts for value in part.inputs}
    outputs = {identity(value): value for part in parts for value in part.outputs}
    place = {key: i for i, key in enumerate([*inputs, *outputs])}
    wiring = [[place[identity(value)] for value in (*part.inputs, *part.outputs)] for part in parts]
    kernel = fuse([part.kernel for part in parts], wiring, preferences.target)
    return Launch(kernel, 0, tuple(inputs.values()), tuple(outputs.values()))
