# SPDX-License-Identifier: Apache-2.0
"""Object code of kernels, each of which is compiled alone, in parallel, and of drivers.

What was compiled before is not compiled again.
"""

from __future__ import annotations

import functools
import hashlib
import inspect
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import tvm
from tvm import tirx
from tvm.script.ir_builder import IRBuilder
from tvm.tirx.script import builder as T

from ....database.code_digest import code_digest
from ....database.digest import digest
from ....lowering.parallel import compiled
from ....support.builds import builds_of
from ....support.folders import TemporaryFolder
from ....support.object_store import ObjectStore
from ....support.progress import counting
from ..kernels.footprint import Accessed
from ..kernels.kernel import Kernel
from . import pipeline
from .accessed import accessed_tensors
from .c_functions import pointer_function
from .pipeline import PIPELINE, SYMBOL

_LIBRARIES = ("libtvm_compiler.so", "libtvm.so", "libLLVM")
"""How the names of the libraries begin that compile; LLVM may be a part of TVM's."""


@dataclass(frozen=True)
class KernelObject:
    """One phase of a kernel, as a function that is to become object code.

    Attributes
    ----------
    symbol : str
        The name by which C calls it.
    key : str
        Hexadecimal digits that are equal only for equal code.
    accessed : Accessed
        The tensors that it reads and writes.
    function : callable
        Builds the function, which is seldom needed if its object code is known.
    unknown : str
        The key under which the store does not have this record yet; empty if it has.
    """

    symbol: str
    key: str
    accessed: Accessed
    function: Callable[[], tirx.PrimFunc]
    unknown: str = ""

    def record(self) -> bytes:
        """Return what the store keeps, beside object code."""
        read, written = (sorted(tensors) for tensors in self.accessed)
        return json.dumps([self.key, read, written]).encode()


def kernel_object(
    kernel: Kernel, phase: int, target: tvm.target.Target, store: ObjectStore
) -> KernelObject:
    """Return one phase of a kernel under a symbol that no other function has.

    Its code need not be built to know its object code: the kernel's key and name, and the package's
    own code that builds it, say what it is.

    Parameters
    ----------
    kernel : Kernel
        The kernel.
    phase : int
        Index of the phase.
    target : tvm.target.Target
    store : ObjectStore
        What is known of kernels.
    """
    what = [kernel.name, str(target), _compiler()]  # the name is in the symbol
    # A size says by its text what it is computed from, but not which argument of C that is, nor
    # what is known of it.
    opened = [] if kernel.opened is None else [kernel.opened.text]
    identity = [digest(kernel.key), str(phase), *what, code_digest(), *opened]
    name = hashlib.sha256(json.dumps(identity).encode()).hexdigest()
    build = functools.cache(functools.partial(_function, kernel, phase))
    kept = store.get(name)
    if kept is not None:
        key, read, written = json.loads(kept)
        accessed, unknown = Accessed(frozenset(read), frozenset(written)), ""
    else:
        text = json.dumps([tvm.ir.save_json(build()), *what])
        key, unknown = hashlib.sha256(text.encode()).hexdigest(), name
        accessed = accessed_tensors(build())
    return KernelObject(f"tvm_ios_{kernel.name}_{key[:16]}", key, accessed, build, unknown)


def _function(kernel: Kernel, phase: int) -> tirx.PrimFunc:
    """Build one phase of a kernel, whose code must be right for all sizes that it is chosen for.

    A condition that came up here would not be known where the code is taken from the store.
    """
    assumed = 0 if kernel.opened is None else len(kernel.opened.conditions)
    function = pointer_function(kernel, phase, kernel.name)
    assert kernel.opened is None or len(kernel.opened.conditions) == assumed, (
        "code assumes no sizes"
    )
    return function


@functools.cache
def _compiler() -> str:
    """Describe what makes object code of functions.

    TVM's version does not tell builds of its development apart.
    """
    version = tvm.target.codegen.llvm_version_major(allow_none=True)
    passes = hashlib.sha256(inspect.getsource(pipeline).encode()).hexdigest()
    builds = ", ".join(builds_of(_LIBRARIES))
    return f"tvm {tvm.__version__}, LLVM {version}, {builds}, {passes}"


def static_libraries(
    objects: Sequence[KernelObject], target: tvm.target.Target, store: ObjectStore
) -> list[tvm.runtime.Module]:
    """Return modules of object code, which export links into a library.

    Those that are not in the store are compiled, by all cores.
    """

    def make(item: KernelObject) -> tuple[str, tvm.runtime.Module]:
        return item.symbol, static_library(item, target, store)

    made = dict(counting(compiled(make, objects, target), len(objects), "kernels"))
    return [made[item.symbol] for item in objects]


def static_library(
    item: KernelObject, target: tvm.target.Target, store: ObjectStore
) -> tvm.runtime.Module:
    """Return a module of object code from the store, or compile and keep it."""
    code = _code(item.key, store, lambda: _compiled(item, target))
    if item.unknown:
        store.put(item.unknown, item.record())
    return module_of(code)


def drivers_code(
    drivers: Mapping[str, tirx.PrimFunc], target: tvm.target.Target, store: ObjectStore
) -> bytes:
    """Return the object code of functions that TVM calls by name, from the store or compiled."""
    codes = {name: tvm.ir.save_json(function) for name, function in drivers.items()}
    text = json.dumps([codes, str(target), _compiler()])
    key = hashlib.sha256(text.encode()).hexdigest()

    def compile_all() -> tvm.runtime.Module:
        return tvm.compile(tvm.IRModule(drivers), target=target, tir_pipeline=PIPELINE).mod

    return _code(key, store, compile_all)


def ir_code(source: str, target: tvm.target.Target, store: ObjectStore) -> bytes:
    """Return the object code of LLVM IR, from the store or compiled."""
    text = json.dumps([source, str(target), _compiler()])
    key = hashlib.sha256(text.encode()).hexdigest()

    def compile_all() -> tvm.runtime.Module:
        with TemporaryFolder() as folder:
            path = folder / "code.ll"
            path.write_text("\n".join((_header(target), source)))
            return tvm.runtime.load_module(str(path))

    return _code(key, store, compile_all)


def _header(target: tvm.target.Target) -> str:
    """Return how LLVM IR names a target, as TVM's own code does."""
    with IRBuilder() as builder, T.prim_func(s_tir=True):
        T.func_name("nothing")
        T.evaluate(tirx.const(0, "int32"))
    module = tvm.compile(tvm.IRModule({"nothing": builder.get()}), target=target).mod
    lines = module.inspect_source("ll").splitlines()
    named = [line for line in lines if line.startswith(("target datalayout", "target triple"))]
    (flag,) = (line.split("=", 1)[1] for line in lines if '"tvm_target"' in line)
    return "\n".join([*named, "!llvm.module.flags = !{!0}", f"!0 ={flag}"])


def module_of(code: bytes, names: Sequence[str] = ()) -> tvm.runtime.Module:
    """Return object code as a module that has the functions ``names``, once it is linked."""
    with TemporaryFolder() as folder:
        path = folder / "code.o"
        path.write_bytes(code)
        return tvm.runtime.load_static_library(str(path), list(names))


def _code(key: str, store: ObjectStore, make: Callable[[], tvm.runtime.Module]) -> bytes:
    """Return the object code of a key, which is made and kept if the store does not have it."""
    known = store.get(key)
    if known is not None:
        return known
    with TemporaryFolder() as folder:
        path = folder / "code.o"
        make().write_to_file(str(path), "o")
        code = path.read_bytes()
    store.put(key, code)
    return code


def _compiled(item: KernelObject, target: tvm.target.Target) -> tvm.runtime.Module:
    function = item.function().with_attr(SYMBOL, item.symbol)
    module = tvm.IRModule({tvm.ir.GlobalVar(item.symbol): function})
    return tvm.compile(module, target=target, tir_pipeline=PIPELINE).mod
