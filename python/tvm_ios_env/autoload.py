# SPDX-License-Identifier: Apache-2.0
"""The registration of a pipeline with TVM by name; tvm_ios is loaded when the pipeline is used."""

from __future__ import annotations

import sys
from typing import Any

PIPELINE = "tvm_ios"


def register() -> None:
    """Register the pipeline with TVM, unless it is registered.

    TVM calls this function when it is imported, through the entry point in ``tvm.backends``. If
    that is disabled, ``import tvm_ios`` calls it.
    """
    # TVM has imported tvm.relax before, unless it is installed without its compiler.
    relax = sys.modules.get("tvm.relax")
    if relax is not None and PIPELINE not in relax.pipeline.PIPELINE_MAP:
        relax.register_pipeline(PIPELINE)(_pipeline)


def _pipeline(*args: Any, **options: Any) -> Any:
    """Return :func:`tvm_ios.transform.pipeline` of the same arguments."""
    from tvm_ios.transform import pipeline

    return pipeline(*args, **options)
