# SPDX-License-Identifier: Apache-2.0
"""Which tensors the code of a kernel reads and writes."""

from __future__ import annotations

import tvm
import tvm_ffi
from tvm import tirx

from ..kernels.footprint import Accessed


def accessed_tensors(function: tirx.PrimFunc) -> Accessed:
    """Return the tensors that a function of pointers reads and writes.

    Parameters
    ----------
    function : tvm.tirx.PrimFunc
        The result of :func:`.functions.pointer_function`. Its pointers are only used by buffers
        that it declares, and by buffers that are declared as views of those.
    """
    declared: list[tirx.DeclBuffer] = []
    loads: list[tvm.ir.TensorLoad] = []
    stores: list[tirx.BufferStore] = []
    kinds = [
        (tirx.DeclBuffer, declared.append),
        (tvm.ir.TensorLoad, loads.append),
        (tirx.BufferStore, stores.append),
    ]
    tvm_ffi.structural_walk(function.body, kinds, order="pre")
    tensor = {parameter: number for number, parameter in enumerate(function.params)}
    for declaration in declared:
        within: list[tvm.ir.Var] = []
        tvm_ffi.structural_walk(declaration.data, [(tvm.ir.Var, within.append)])
        (source,) = within
        if source in tensor:
            tensor[declaration.buffer] = tensor[source]
    return Accessed(
        frozenset(tensor[load.source] for load in loads if load.source in tensor),
        frozenset(tensor[store.buffer] for store in stores if store.buffer in tensor),
    )
