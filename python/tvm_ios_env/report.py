# SPDX-License-Identifier: Apache-2.0
"""The report of ``tvm-ios env``, as a dictionary and as text."""

from __future__ import annotations

import os
import platform
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from .cuda import cuda_compiler
from .diagnostics import diagnostics
from .gpu import gpus
from .machine import this_cpu
from .requirements import version

# Names in the report, with distributions of which the first that is installed counts.
_PACKAGES = {
    "tvm-ios": ("tvm-ios",),
    "apache-tvm": ("apache-tvm",),
    "apache-tvm-ffi": ("apache-tvm-ffi",),
    "numpy": ("numpy",),
    "xgboost": ("xgboost-cpu", "xgboost"),
    "onnx": ("onnx",),
    "onnxruntime": ("onnxruntime", "onnxruntime-gpu"),
    "torch": ("torch",),
    "cudnn": ("nvidia-cudnn-cu13", "nvidia-cudnn-cu12"),
}
_VARIABLES = (
    "TVM_NUM_THREADS",
    "TVM_BIND_THREADS",
    "OMP_NUM_THREADS",
    "TVM_IOS_LIBRARY_PATH",
    "CUDA_PATH",
    "TVM_CUDA_COMPILE_MODE",
    "TVM_CUDA_NVRTC_EXTRA_OPTS",
    "CXX",
    "CC",
)
_LINKERS = ("g++", "gcc", "clang++", "clang", "c++", "cc")  # in TVM's search order


def collect(problems: Sequence[str] = (), llvm_cpu: str | None = None) -> dict[str, Any]:
    """Return the report, ready for JSON.

    Parameters
    ----------
    problems : sequence of str
        The problems that prevent tvm_ios from being loaded.
    llvm_cpu : str, optional
        LLVM's name of the CPU, if the caller could load TVM.
    """
    cpu, linker, cuda = this_cpu(), find_linker(), cuda_compiler()
    advice = cuda.advice()
    return {
        "python": platform.python_version(),
        "system": platform.platform(),
        "packages": {name: _first_version(names) for name, names in _PACKAGES.items()},
        "cpu": {**asdict(cpu), "llvm": llvm_cpu},
        "gpu": asdict(gpus()),
        "cuda_compiler": {**asdict(cuda), "found": str(cuda)},
        "linker": linker,
        "environment": {name: os.environ[name] for name in _VARIABLES if name in os.environ},
        "warnings": [
            *problems,
            *diagnostics(cpu, os.environ, linker),
            *([advice] if advice else []),
        ],
    }


def find_linker() -> str | None:
    """Return the compiler that TVM links libraries with; None if there is none."""
    named = os.environ.get("CXX") or os.environ.get("CC")
    candidates = (named,) if named else _LINKERS
    return next(filter(None, map(shutil.which, candidates)), None)


def as_text(found: Mapping[str, Any]) -> str:
    """Return the report as text, with a line for each item and each warning."""
    lines = [f"{name:15} {value}" for name, value in _lines(found)]
    lines += ["", *(f"warning: {sentence}" for sentence in found["warnings"])]
    return "\n".join(lines if found["warnings"] else [*lines, "no warnings"])


def _lines(found: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    yield "python", f"{found['python']} on {found['system']}"
    for name, installed in found["packages"].items():
        yield name, installed or "not installed"
    yield from _cpu_lines(found["cpu"])
    gpu = found["gpu"]
    yield "gpu", ", ".join(gpu["devices"]) or gpu["reason"]
    if gpu["driver"]:
        yield "cuda driver", gpu["driver"]
    yield "cuda compiler", found["cuda_compiler"]["found"]
    yield "linker", found["linker"] or "none found"
    for name, value in found["environment"].items():
        yield "environment", f"{name}={value}"


def _cpu_lines(cpu: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    yield "cpu", f"{cpu['name']} ({cpu['architecture']})"
    yield "llvm's name", cpu["llvm"] or "unknown, because TVM cannot be loaded"
    parts = [f"{cpu['usable']} of {cpu['cores']} usable"]
    if cpu["physical"] is not None:
        parts.append(f"{cpu['physical']} physical")
    if cpu["quota"] is not None:
        parts.append(f"time of {cpu['quota']:g} granted")
    if cpu["load"] is not None:
        parts.append(f"load {cpu['load']:.1f}")
    yield "cores", ", ".join(parts)
    yield "simd", f"{cpu['vectors']}, {cpu['vector_bits']} bits"
    yield "caches", ", ".join(f"{name} {size >> 10} KiB" for name, size in cpu["caches"].items())


def _first_version(names: tuple[str, ...]) -> str | None:
    return next(filter(None, map(version, names)), None)
