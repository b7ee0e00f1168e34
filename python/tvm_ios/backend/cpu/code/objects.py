# SPDX-License-Identifier: Apache-2.0
"""Object code of kernels: each is compiled alone, in parallel, and only if it was not before."""

from __future__ import annotations

import functools
import hashlib
import inspect
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import tvm
from tvm import tirx

from ....database.objects import ObjectStore
from ....measure.parallel import compiled
from ....support.caches import object_directory
from ....support.folders import TemporaryFolder
from . import pipeline
from .pipeline import PIPELINE, SYMBOL


@dataclass(frozen=True)
class KernelObject:
    """A function that is to become object code.

    Attributes
    ----------
    symbol : str
        The name by which C calls it.
    key : str
        Hexadecimal digits that are equal only for equal code.
    function : tvm.tirx.PrimFunc
    """

    symbol: str
    key: str
    function: tirx.PrimFunc


def kernel_object(name: str, function: tirx.PrimFunc, target: tvm.target.Target) -> KernelObject:
    """Return a function under a symbol that no other function has."""
    text = tvm.ir.save_json(function)
    key = hashlib.sha256(json.dumps([text, str(target), _compiler()]).encode()).hexdigest()
    return KernelObject(f"tvm_ios_{name}_{key[:16]}", key, function)


@functools.cache
def _compiler() -> str:
    """Describe what makes object code of functions."""
    version = tvm.target.codegen.llvm_version_major(allow_none=True)
    passes = hashlib.sha256(inspect.getsource(pipeline).encode()).hexdigest()
    return f"tvm {tvm.__version__}, LLVM {version}, {passes}"


def static_libraries(
    objects: Sequence[KernelObject], target: tvm.target.Target
) -> list[tvm.runtime.Module]:
    """Return modules of object code, which export links into a library.

    Those that are not in the store are compiled, by all cores.
    """
    store = ObjectStore(object_directory())

    def make(item: KernelObject) -> tuple[str, tvm.runtime.Module]:
        return item.symbol, static_library(item, target, store)

    made = dict(compiled(make, objects, target))
    return [made[item.symbol] for item in objects]


def static_library(
    item: KernelObject, target: tvm.target.Target, store: ObjectStore
) -> tvm.runtime.Module:
    """Return a module of object code from the store, or compile and keep it."""
    with TemporaryFolder() as folder:
        path = folder / f"{item.symbol}.o"
        content = store.get(item.key)
        if content is None:
            _compile(item, target, path)
            store.put(item.key, path.read_bytes())
        else:
            path.write_bytes(content)
        return tvm.runtime.load_static_library(str(path), [])


def _compile(item: KernelObject, target: tvm.target.Target, path: Path) -> None:
    function = item.function.with_attr(SYMBOL, item.symbol)
    module = tvm.IRModule({tvm.ir.GlobalVar(item.symbol): function})
    tvm.compile(module, target=target, tir_pipeline=PIPELINE).mod.write_to_file(str(path), "o")
