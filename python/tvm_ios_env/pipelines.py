# SPDX-License-Identifier: Apache-2.0
"""The registration of a pipeline with TVM."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

PIPELINE = "tvm_ios"


def register(pipeline: Callable[..., Any]) -> None:
    """Register a pipeline with TVM as ``tvm_ios``, unless there is one.

    It needs TVM's compiler, which has been imported before; TVM's runtime alone is left as it is.
    """
    relax = sys.modules.get("tvm.relax")
    if relax is not None and PIPELINE not in relax.pipeline.PIPELINE_MAP:
        relax.register_pipeline(PIPELINE)(pipeline)
