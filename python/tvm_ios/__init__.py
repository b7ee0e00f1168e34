# SPDX-License-Identifier: Apache-2.0
"""Inter-operator scheduling for TVM."""

from importlib import import_module
from pkgutil import iter_modules
from typing import Any

from tvm_ios_env import pipelines, requirements
from tvm_ios_runtime.cuda import find_cuda_runtime

requirements.check()  # before TVM is loaded: a wrong version may crash
find_cuda_runtime()  # which TVM looks for once, when it is loaded

from tvm_ios import draw, target, transform
from tvm_ios.api import CompiledModel, compile, load
from tvm_ios.graph.dag import Candidate, Dag, components
from tvm_ios.measure.transport.locations import ProcessRunner, RPCRunner
from tvm_ios.schedule import Schedule, ScheduledOperator, ScheduledStage
from tvm_ios.search import (
    CostFunction,
    SearchResult,
    endings,
    find_schedule,
    greedy,
    partition,
    partition_cost,
    sequential,
)
from tvm_ios.support.errors import (
    CostError,
    DatabaseError,
    DeviceError,
    GraphError,
    ModelError,
    OptionError,
    RelayError,
    ScheduleError,
    TargetError,
    TvmIosError,
    UnsupportedError,
)
from tvm_ios.support.libinfo import __version__, library_path

__all__ = [
    "Candidate",
    "CompiledModel",
    "CostError",
    "CostFunction",
    "Dag",
    "DatabaseError",
    "DeviceError",
    "GraphError",
    "ModelError",
    "OptionError",
    "ProcessRunner",
    "RPCRunner",
    "RelayError",
    "Schedule",
    "ScheduleError",
    "ScheduledOperator",
    "ScheduledStage",
    "SearchResult",
    "TargetError",
    "TvmIosError",
    "UnsupportedError",
    "__version__",
    "compile",
    "components",
    "draw",
    "endings",
    "find_schedule",
    "greedy",
    "library_path",
    "load",
    "partition",
    "partition_cost",
    "sequential",
    "target",
    "transform",
]

Isolated, Rpc = ProcessRunner, RPCRunner  # their names in earlier releases

pipelines.register(transform.pipeline)


def __getattr__(name: str) -> Any:
    """Import a module of the package when it is first used."""
    full = f"{__name__}.{name}"
    try:
        if not name.startswith("_"):
            return import_module(full)
    except ModuleNotFoundError as error:
        if error.name != full:
            raise
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *(module.name for module in iter_modules(__path__))})
