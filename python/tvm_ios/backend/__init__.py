# SPDX-License-Identifier: Apache-2.0
"""What a kind of target brings with it: kernels, ways to run a stage, code, and who measures."""

from __future__ import annotations

import tvm

from ..database import MeasurementDatabase
from ..errors import OptionError
from ..measure.sites import Site
from ..options import Options
from ..target import is_cuda
from .base import Backend

__all__ = ["Backend", "backend_of"]


def backend_of(
    target: tvm.target.Target, site: Site, options: Options, database: MeasurementDatabase | None
) -> Backend:
    """The back end of a target that was resolved.

    Raises
    ------
    OptionError
        For options that the target has no use for.
    """
    if is_cuda(target):
        from .cuda import CudaBackend

        return CudaBackend(target, site, options)
    if options.precision != "fp32" or options.cudnn:
        raise OptionError("precision and cudnn are for CUDA devices; leave them out for a CPU.")
    from .cpu import CpuBackend

    return CpuBackend(target, site, options, database)
