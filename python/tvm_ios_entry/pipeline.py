# SPDX-License-Identifier: Apache-2.0
"""The pipeline that TVM knows by name; tvm_ios is loaded when the pipeline is used."""

from __future__ import annotations

from typing import Any

from tvm_ios_env import pipelines


def register() -> None:
    """Register the pipeline with TVM.

    TVM calls this function when it is imported, through the entry point in ``tvm.backends``. If
    that is disabled, ``import tvm_ios`` registers the pipeline.
    """
    pipelines.register(_pipeline)


def _pipeline(*args: Any, **options: Any) -> Any:
    """Return :func:`tvm_ios.transform.pipeline` of the same arguments."""
    from tvm_ios.transform import pipeline

    return pipeline(*args, **options)
