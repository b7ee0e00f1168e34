# SPDX-License-Identifier: Apache-2.0
"""Alignment of a kernel's stack to whole vectors.

LLVM spills vectors to the stack where a kernel has more values than registers. By the calling
convention of x86-64 the stack is aligned to 16 bytes, so that most of these vectors cross a cache
line, and some a page. A kernel then takes up to twice as long, depending on the depth of the stack
at the call, which differs from process to process. LLVM aligns the stack of a function that has an
aligned variable, and its spilled vectors, too. Such a variable is LLVM IR of our own, because TVM
does not align its variables further.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager

import tvm
from tvm import tirx
from tvm.tirx.script import builder as T

_FUNCTION = "tvm_ios_align_stack"
_BYTES = 64  # the widest vectors, and a cache line

# The empty assembly uses the variable's address, so that LLVM does not remove the variable.
_SOURCE = f"""
define internal i32 @{_FUNCTION}() alwaysinline {{
  %variable = alloca i8, align {_BYTES}
  call void asm sideeffect "", "r"(ptr %variable)
  ret i32 0
}}
"""


@contextmanager
def aligned_stack(sources: Collection[str] = ()) -> Iterator[None]:
    """Align the stack of the function that is emitted.

    ``sources`` is the LLVM IR of other functions that it calls: a function can import only once.
    """
    imported = tvm.ir.StringImm("".join((_SOURCE, *sorted(sources))))
    with T.attr(tirx.const(0, "int32"), "pragma_import_llvm", imported):
        T.evaluate(T.call_extern("int32", _FUNCTION))
        yield
