# SPDX-License-Identifier: Apache-2.0
"""The pipeline that TVM knows by name, and that loads tvm_ios when it is used."""

from __future__ import annotations

import sys
from typing import Any

PIPELINE = "tvm_ios"


def register() -> None:
    """Make the pipeline known to TVM, unless it is.

    TVM calls this when it is imported, by the entry point in ``tvm.backends``; ``import tvm_ios``
    calls it for those who have switched that off.
    """
    # Nothing is imported here: TVM has imported it, unless it came without its compiler.
    relax = sys.modules.get("tvm.relax")
    if relax is not None and PIPELINE not in relax.pipeline.PIPELINE_MAP:
        relax.register_pipeline(PIPELINE)(_pipeline)


def _pipeline(*args: Any, **options: Any) -> Any:
    """Return :func:`tvm_ios.transform.pipeline` of the same arguments."""
    from tvm_ios.transform import pipeline

    return pipeline(*args, **options)
