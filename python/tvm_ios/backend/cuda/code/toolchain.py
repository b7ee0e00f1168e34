# SPDX-License-Identifier: Apache-2.0
"""CUDA's compiler: NVRTC from PyPI, or a toolkit's nvcc; neither needs a GPU.

This module works around four properties of TVM. TVM looks for headers only beside a toolkit's
``nvcc``. It always enables fast mathematics, whose tanh is exact to three digits. It leaves device
code as source if the driver is not installed. And it makes NVRTC parse headers of CUDA's library
that few kernels use, which takes more than a second.
"""

from __future__ import annotations

import logging
import os
import re
import shutil
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

import tvm
import tvm_ffi

from tvm_ios_env.nvidia import (
    EXTRA,
    MODE,
    OPTIONS,
    SLOWER,
    TOOLKIT,
    Headers,
    find_headers,
    missing_headers,
)

from ....support import _ffi_api  # noqa: F401  (loads the library whose functions are looked up below)
from ....support.errors import OptionError, TargetError

_logger = logging.getLogger(__name__)
_told = threading.Lock()  # held for good by the thread that has told of slow compilation

_EXACT = "TVM_CUDA_NVCC_NO_FAST_MATH"  # TVM reads it
_FAST = b"--use_fast_math"
_REFUSAL = re.compile(r"unrecognized option|Cannot find CUDA headers|could not open source file")

# TVM's prologue of every source: two headers, for INFINITY and for type traits.
_LIMITS = re.compile(
    rb"#include <cuda/std/limits>\n#ifndef INFINITY\n#define INFINITY [^\n]*\n#endif\n"
)
_TRAITS = re.compile(rb"#include <cuda/std/type_traits>\s+namespace std \{.*?\n\s*\}\n", re.DOTALL)
_INFINITY = b"#define INFINITY __int_as_float(0x7f800000)\n"
_LIBRARY = re.compile(rb"(?<!using cuda::)std::")  # the names that those headers define


@dataclass(frozen=True)
class Toolchain:
    """A compiler that TVM can call.

    Attributes
    ----------
    name : str
        ``nvrtc`` or ``nvcc``.
    environment : mapping of str to str
        Environment variables by which TVM finds it.
    architectures : frozenset of int
        The supported architectures, 90 for ``sm_90``; empty if they are unknown.
    headers : Path or None
        The folder of CUDA's headers that NVRTC uses; None for nvcc, which has its own.
    """

    name: str
    environment: Mapping[str, str]
    architectures: frozenset[int] = field(default_factory=frozenset)
    headers: Path | None = None

    def __str__(self) -> str:
        return self.name if self.headers is None else f"{self.name}, headers of {self.headers}"


def check_compiler(target: tvm.target.Target) -> None:
    """Raise an error unless kernels can be compiled for ``target``.

    Raises
    ------
    OptionError
        If there is no compiler, or ``CUDA_PATH`` names a toolkit without headers.
    TargetError
        If the compiler does not support the architecture.
    """
    known = find_toolchain().architectures
    arch = str(target.attrs["arch"])
    if known and int(arch.removeprefix("sm_").rstrip("af")) not in known:
        raise TargetError(
            f"The installed CUDA compiler supports sm_{min(known)} to sm_{max(known)}, not {arch}; "
            "install another version of nvidia-cuda-nvrtc."
        )


def find_toolchain() -> Toolchain:
    """Return the installed compiler: the one that the user has set, else NVRTC, else nvcc.

    The first call in a process that finds NVRTC without headers, and nvcc, logs a warning.

    Raises
    ------
    OptionError
        If there is no compiler, or ``CUDA_PATH`` names a toolkit without the headers for NVRTC.
    """
    wanted = os.environ.get(MODE, "").lower()
    architectures = frozenset() if wanted == "nvcc" else _nvrtc_architectures()
    if architectures:
        headers = _headers()
        if headers is not None:
            return Toolchain("nvrtc", headers.environment(), architectures, headers.include)
    if wanted != "nvrtc" and shutil.which("nvcc"):
        if architectures and _told.acquire(blocking=False):
            _logger.warning("%s", SLOWER)
        return Toolchain("nvcc", {MODE: "nvcc", _EXACT: "1"})
    raise OptionError(
        f"CUDA's compiler or its headers are not installed; run {EXTRA}, which needs no GPU."
    )


def _headers() -> Headers | None:
    """Return the headers for NVRTC, None if there are none; ``CUDA_PATH`` has to name some."""
    headers, toolkit = find_headers(), os.environ.get(TOOLKIT)
    if headers is None and toolkit:
        raise OptionError(missing_headers(toolkit))
    return headers


class _Together:
    """A context that the first of several threads enters and the last one leaves.

    Parameters
    ----------
    context : callable
        Returns the context manager.
    """

    def __init__(self, context: Callable[[], AbstractContextManager[None]]) -> None:
        self._context, self._entered = context, ExitStack()
        self._lock, self._threads = threading.Lock(), 0

    @contextmanager
    def entered(self) -> Iterator[None]:
        with self._lock:
            if not self._threads:
                self._entered.enter_context(self._context())
            self._threads += 1
        try:
            yield
        finally:
            with self._lock:
                self._threads -= 1
                if not self._threads:
                    self._entered.close()


@contextmanager
def _set_up() -> Iterator[None]:
    """Set the environment and the hooks of a compilation; both are global to the process."""
    toolchain = find_toolchain()
    before = {name: os.environ.get(name) for name in toolchain.environment}
    os.environ.update(toolchain.environment)
    try:
        with _own_nvrtc() if toolchain.name == "nvrtc" else nullcontext():
            yield
    finally:
        for name, value in before.items():
            os.environ.pop(name)
            if value is not None:
                os.environ[name] = value


_shared = _Together(_set_up)


@contextmanager
def cuda_compiler() -> Iterator[None]:
    """Make TVM compile device code by :func:`find_toolchain`, without fast mathematics.

    Several threads may be inside the context at the same time.

    Raises
    ------
    OptionError
        If there is no compiler, if it lacks headers, or if it is given an unknown option.
    """
    with _shared.entered():
        try:
            yield
        except RuntimeError as error:
            reasons = [line for line in str(error).splitlines() if _REFUSAL.search(line)]
            if not reasons:
                raise
            raise OptionError(
                f"CUDA's compiler cannot be used ({reasons[0].strip()}); look at {TOOLKIT} and "
                f"{OPTIONS}."
            ) from error


def compile_sources(module: tvm_ffi.Module) -> tvm_ffi.Module:
    """Compile the device code in ``module`` that TVM has left as source, so that it can be saved.

    Call this within :func:`cuda_compiler`, with the target as the current one.
    """
    is_source = tvm_ffi.get_global_func("tvm_ios.cuda.IsSource")
    if is_source(module):
        code = tvm_ffi.get_global_func("tvm_callback_cuda_compile")(module.inspect_source())
        return tvm_ffi.get_global_func("tvm_ios.cuda.WithMachineCode")(module, bytes(code))
    imports = list(module.imports)
    compiled = [compile_sources(imported) for imported in imports]
    if any(a is not b for a, b in zip(imports, compiled, strict=True)):
        module.clear_imports()
        for imported in compiled:
            module.import_module(imported)
    return module


@contextmanager
def _own_nvrtc() -> Iterator[None]:
    """Replace two functions of NVRTC's bindings.

    TVM offers no other access to its source and its options.
    """
    nvrtc: Any = import_module("cuda.bindings.nvrtc")
    create, compile_program = nvrtc.nvrtcCreateProgram, nvrtc.nvrtcCompileProgram

    def create_lean(source: bytes, *others: object) -> object:
        return create(lean_source(source), *others)

    def compile_exactly(program: object, _count: int, options: list[bytes]) -> object:
        kept = [option for option in options if option != _FAST]  # no other option disables it
        return compile_program(program, len(kept), kept)

    nvrtc.nvrtcCreateProgram, nvrtc.nvrtcCompileProgram = create_lean, compile_exactly
    try:
        yield
    finally:
        nvrtc.nvrtcCreateProgram, nvrtc.nvrtcCompileProgram = create, compile_program


def lean_source(source: bytes) -> bytes:
    """Remove TVM's slow headers from CUDA C that does not use them.

    NVRTC parses headers in one thread at a time.
    """
    lean = _TRAITS.sub(b"", _LIMITS.sub(_INFINITY, source))
    return source if _LIBRARY.search(lean) else lean


def _nvrtc_architectures() -> frozenset[int]:
    """Return the architectures that NVRTC supports, an empty set if it is not installed."""
    try:
        nvrtc: Any = import_module("cuda.bindings.nvrtc")
        status, architectures = nvrtc.nvrtcGetSupportedArchs()
    except Exception:  # its type depends on the missing part
        return frozenset()
    return frozenset(architectures) if int(status) == 0 else frozenset()
