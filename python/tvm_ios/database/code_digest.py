# SPDX-License-Identifier: Apache-2.0
"""A digest of the code that affects the latencies of stages.

A latency stays valid until that code changes. The digest is computed from syntax trees: comments,
docstrings and formatting do not change it.
"""

from __future__ import annotations

import ast
import functools
import hashlib
from collections.abc import Iterable
from pathlib import Path

import tvm_ffi

from ..support import _ffi_api  # noqa: F401  (loads the library)
from ..support.caches import object_directory
from ..support.object_store import ObjectStore, shared_store

# Relative to the packages' directory: the code that partitions the work, emits, compiles, runs and
# times the kernels, and selects the cores. The front ends and the graph do not matter, because the
# key of a latency says what a kernel computes and for which target.
_TIMED = (
    "tvm_ios/backend",
    "tvm_ios/lowering",
    "tvm_ios/measure",
    "tvm_ios/ops",
    "tvm_ios/support/threads.py",
    "tvm_ios_env/machine.py",
    "tvm_ios_runtime/threads.py",
)
# The part of it that no timed stage runs: the network's code around the stages, the decision
# between whole models, and other cost models. The database stores features with their own version,
# see measure/learned/layout.py.
_UNTIMED = (
    "tvm_ios/backend/cpu/code/arguments.py",
    "tvm_ios/backend/cpu/code/constants.py",
    "tvm_ios/backend/cpu/code/core_claims.py",
    "tvm_ios/backend/cpu/code/cpu_check.py",
    "tvm_ios/backend/cpu/code/direct.py",
    "tvm_ios/backend/cpu/code/driver.py",
    "tvm_ios/backend/cpu/code/elf.py",
    "tvm_ios/backend/cpu/code/prefetch_target.py",
    "tvm_ios/backend/cpu/code/launch_code.py",
    "tvm_ios/backend/cpu/code/launch_loop.py",
    "tvm_ios/backend/cpu/code/launch_state.py",
    "tvm_ios/backend/cpu/code/launch_tables.py",
    "tvm_ios/backend/cpu/code/llvm_ir.py",
    "tvm_ios/backend/cpu/code/network.py",
    "tvm_ios/backend/cpu/code/progress.py",
    "tvm_ios/backend/cpu/code/recorder.py",
    "tvm_ios/backend/cpu/code/thread_pool.py",
    "tvm_ios/backend/cpu/code/units.py",
    "tvm_ios/backend/cpu/code/wait_check.py",
    "tvm_ios/backend/cpu/code/waits.py",
    "tvm_ios/backend/cpu/measure/timeline.py",
    "tvm_ios/backend/cuda/code/network.py",
    "tvm_ios/measure/timing/decision.py",
    "tvm_ios/measure/given.py",
    "tvm_ios/measure/learned",
    "tvm_ios/measure/timing/paired.py",
    "tvm_ios/measure/timing/rounds.py",
)


@functools.cache
def code_digest() -> str:
    """Return 12 hexadecimal digits that change when latencies may change.

    They depend on the Python sources of this installation and on the C++ sources of the loaded
    library.
    """
    cpp = tvm_ffi.get_global_func("tvm_ios.runtime.SourceDigest")()
    python = _remembered(Path(__file__).resolve().parents[2], shared_store(object_directory()))
    return hashlib.sha256(f"{python} {cpp}".encode()).hexdigest()[:12]


def _remembered(packages: Path, store: ObjectStore) -> str:
    """Return the digest of the Python code, which is computed once for the same bytes.

    To parse all files takes a good part of the time of a second compilation.
    """
    content = hashlib.sha256(Path(__file__).read_bytes())  # how the digest is computed
    for path in timed_sources(packages):
        content.update(f"\0{path.relative_to(packages)}\0".encode())
        content.update(hashlib.sha256(path.read_bytes()).digest())
    kept = store.get(content.hexdigest())
    if kept is not None:
        return kept.decode()
    digest = python_digest(packages)
    store.put(content.hexdigest(), digest.encode())
    return digest


def python_digest(packages: Path) -> str:
    """Return a digest of the Python code below ``packages`` that affects latencies.

    Parameters
    ----------
    packages : Path
        The directory that contains ``tvm_ios`` and its sister packages.
    """
    return digest_of(timed_sources(packages), packages)


def digest_of(sources: Iterable[Path], root: Path) -> str:
    """Return a digest of the code in Python files, without comments, docstrings and formatting.

    Parameters
    ----------
    sources : iterable of Path
        The files.
    root : Path
        The directory that the names of the files are relative to.
    """
    digest = hashlib.sha256()
    for path in sources:
        code: list[str] = [path.relative_to(root).as_posix()]
        _write(ast.parse(path.read_bytes()), code)
        digest.update("\0".join(code).encode("utf-8", "surrogatepass") + b"\0")
    return digest.hexdigest()


def timed_sources(packages: Path) -> list[Path]:
    """Return the Python files that affect latencies, sorted."""
    return sorted(_files(packages, _TIMED) - _files(packages, _UNTIMED))


def _files(packages: Path, names: Iterable[str]) -> set[Path]:
    """Return the Python files that are named, and those in the directories that are named."""
    found: set[Path] = set()
    for name in names:
        path = packages / name
        found.update(path.rglob("*.py") if path.is_dir() else [path])
    return found


def _write(node: object, code: list[str]) -> None:
    """Append a syntax tree in a form that all Python versions share, unlike ``ast.dump``."""
    if isinstance(node, ast.AST):
        code.append(f"({type(node).__name__}")
        for name in node._fields:
            value = getattr(node, name, None)
            if isinstance(value, ast.expr_context) or value is None or value == []:
                continue
            code.append(name)
            _write(value, code)
        code.append(")")
    elif isinstance(node, list):
        code.append("[")
        for item in node:
            if not _is_docstring(item):
                _write(item, code)
        code.append("]")
    else:
        code.append(repr(node))


def _is_docstring(node: object) -> bool:
    """Return whether a statement is only a string, which has no effect."""
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )
