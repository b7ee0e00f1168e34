# SPDX-License-Identifier: Apache-2.0
"""The memory level at which timed stages find their weights, that at which the network finds them.

If a network's weights fit into L2, they stay there from one call to the next. In a larger network,
each stage reads its weights from memory, because all others were read since. Repeated runs of one
stage in a graph would find them in L2 from the second run on, so each run has a copy of its own.
"""

from __future__ import annotations

from ....lowering.cold import arena_bytes
from ....lowering.implementation import constants
from ..rules.config import CudaLoweredGraph

DTYPES = ("float32", "float16", "bfloat16")


def weights_from(lowered: CudaLoweredGraph) -> str:
    """Return the memory level that timed stages read their weights from; latencies depend on it."""
    fit = arena_bytes(constants(lowered, DTYPES)) <= lowered.config.limits.l2_bytes
    return "L2" if fit else "memory"
