# SPDX-License-Identifier: Apache-2.0
"""Which tensors the code of a kernel reads and writes."""

from __future__ import annotations

import tvm
import tvm_ffi
from tvm import tirx

from ..kernels.footprint import Accessed

_ACCESS = tvm.ir.Op.get("tirx.tvm_access_ptr")
_ADDRESS = tvm.ir.Op.get("tirx.address_of")
_EXTERN = tvm.ir.Op.get("tirx.call_extern")
_READ_ONLY = 1


def accessed_tensors(function: tirx.PrimFunc) -> Accessed:
    """Return the tensors that a function of pointers reads and writes.

    Parameters
    ----------
    function : tvm.tirx.PrimFunc
        The result of :func:`.c_functions.pointer_function`. Its pointers are only used by buffers
        that it declares, and by buffers that are declared as views of those. What a call does
        with the address of an element is not known: its tensor counts as read and written, or as
        read if the address says so. Prefetching reads nothing.
    """
    declared: list[tirx.DeclBuffer] = []
    loads: list[tvm.ir.TensorLoad] = []
    stores: list[tirx.BufferStore] = []
    calls: list[tvm.ir.Call] = []
    kinds = [
        (tirx.DeclBuffer, declared.append),
        (tvm.ir.TensorLoad, loads.append),
        (tirx.BufferStore, stores.append),
        (tvm.ir.Call, calls.append),
    ]
    tvm_ffi.structural_walk(function.body, kinds, order="pre")
    tensor = {parameter: number for number, parameter in enumerate(function.params)}
    for declaration in declared:
        (source,) = (v for v in _variables(declaration.data) if not _is_number(v))
        if source in tensor:
            tensor[declaration.buffer] = tensor[source]
    either = {buffer for call in calls if _may_write(call) for buffer in _variables(call)}
    passed = [argument for call in calls if call.op == _EXTERN for argument in call.args]
    pointers = [a for a in passed if isinstance(a, tvm.ir.Call) and a.op == _ACCESS]
    read = {load.source for load in loads} | either
    read |= {buffer for pointer in pointers for buffer in _variables(pointer)}
    written = {store.buffer for store in stores} | either
    return Accessed(
        frozenset(tensor[buffer] for buffer in read if buffer in tensor),
        frozenset(tensor[buffer] for buffer in written if buffer in tensor),
    )


def _may_write(call: tvm.ir.Call) -> bool:
    """Tell whether a call yields an address by which a tensor may be written."""
    if call.op == _ACCESS:
        return int(call.args[-1]) != _READ_ONLY
    return call.op == _ADDRESS


def _is_number(variable: tvm.ir.Var) -> bool:
    """Tell whether a variable is an open size, not a tensor."""
    return isinstance(variable.ty, tvm.ir.PrimType)


def _variables(expression: tvm.ir.Expr) -> list[tvm.ir.Var]:
    found: list[tvm.ir.Var] = []
    tvm_ffi.structural_walk(expression, [(tvm.ir.Var, found.append)])
    return found
