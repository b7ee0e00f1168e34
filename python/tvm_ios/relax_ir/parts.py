# SPDX-License-Identifier: Apache-2.0
"""Parts of a network that are functions of their own, such as branches and the bodies of loops.

A part computes without branches, as a network does, so that it is scheduled as one. What chooses
and repeats parts are other functions, which TVM's virtual machine runs.
"""

from __future__ import annotations

import tvm
import tvm_ffi

PART = "tvm_ios.part"
"""The attribute of functions that are parts."""


def is_part(function: tvm.ir.BaseFunc) -> bool:
    """Return whether a function is a part."""
    return bool(function.attrs and PART in function.attrs)


def part_names(mod: tvm.IRModule) -> list[str]:
    """Return the names of the parts in a module."""
    return sorted(v.name_hint for v, function in mod.functions.items() if is_part(function))


def module_of(mod: tvm.IRModule, name: str) -> tvm.IRModule:
    """Return a function as the entry of a module, with the functions that it calls."""
    first = mod.get_global_var(name)
    found, waiting = {first: mod[first].with_attr("global_symbol", name)}, [first]
    while waiting:
        called: list[tvm.ir.GlobalVar] = []
        tvm_ffi.structural_walk(found[waiting.pop()], (tvm.ir.GlobalVar, called.append))
        for variable in called:
            own = mod.get_global_var(variable.name_hint)
            if own not in found:
                found[own] = mod[own]
                waiting.append(own)
    return tvm.IRModule(found, attrs=mod.attrs, global_infos=mod.global_infos)
