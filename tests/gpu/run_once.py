# SPDX-License-Identifier: Apache-2.0
"""A process of its own for ``test_sanitizer.py``: a small network, run three times."""

from __future__ import annotations

import sys
from pathlib import Path

if __name__ == "__main__":
    sys.modules["torch"] = None  # which would be watched, too
    sys.path.append(str(Path(__file__).parents[1]))

from gpu_support import branches, compile_variants, image, run

if __name__ == "__main__":
    (partitioning,) = sys.argv[1:]
    variants = compile_variants(branches(), [partitioning])
    for _ in range(3):  # warms up, captures, replays
        run(variants, partitioning, [image()])
