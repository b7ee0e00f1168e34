# SPDX-License-Identifier: Apache-2.0
"""Targets, completed with the properties of this machine.

TVM interprets a bare ``llvm`` as the oldest CPU of the architecture (SSE2 on x86-64). A user of the
command line means this machine, so :func:`resolve` adds its CPU and the number of its cores. The
pass itself uses the target as given: a kernel must never use instructions that TVM's code generator
does not know of.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import Any

import tvm

from tvm_ios_env.amx import permitted
from tvm_ios_env.machine import default_threads

from .support.errors import TargetError

CPU, CUDA = KINDS = ("llvm", "cuda")
"""The target kinds that this package can lower to."""

_PURPOSES = {CPU: f"{CPU!r} for this CPU", CUDA: f"{CUDA!r} for an NVIDIA GPU"}

MOST_THREADS = 1024
"""The maximum number of threads; more would be a mistake, and a process may fail to start them."""

_OTHER_NAMES = ("amd64", "i486", "i586", "i686", "ppc")  # aliases of architectures in LLVM


def available_cores() -> int:
    """Return the number of cores that this process may use, by its affinity and its CPU quota."""
    return default_threads()


_THIS = "this machine's"
_NO_AMX = "-amx-tile"  # LLVM removes what needs the registers, too


def resolve(
    target: str | tvm.target.Target,
    *,
    threads: int | None = None,
    cpu: str | None = _THIS,
    cores: int | None = None,
) -> tvm.target.Target:
    """Return a target with a machine's CPU and core count where the user named none.

    Parameters
    ----------
    target : str or tvm.target.Target
        ``"llvm"``, a JSON string or a Target of kind ``llvm``.
    threads : int, optional
        The number of worker threads. By default the target's ``num-cores``, else all available
        cores.
    cpu : str, optional
        LLVM's name of another machine's CPU; None to name no CPU. By default this machine's.
    cores : int, optional
        The number of another machine's cores.

    Returns
    -------
    tvm.target.Target

    Raises
    ------
    TargetError
        If TVM does not know the target, or if it is not a CPU.
    """
    parsed = parse(target)
    if parsed.kind.name != CPU:
        raise TargetError(f"A target of kind {parsed.kind.name!r} is not a CPU; use 'llvm' here.")
    config = {str(k): v for k, v in parsed.export().items()}
    if "mcpu" not in parsed.attrs and is_native(parsed) and cpu is not None:
        here = cpu == _THIS
        config["mcpu"] = tvm.target.codegen.llvm_get_system_cpu() if here else cpu
        if _may_lack_amx(config, here):
            config["mattr"] = [*config.get("mattr", ()), _NO_AMX]
    if threads is not None:
        if threads < 1:
            raise TargetError(f"The number of threads must be at least 1, got {threads}.")
        config["num-cores"] = threads
    config.setdefault("num-cores", cores or available_cores())
    if not 0 < config["num-cores"] <= MOST_THREADS:
        raise TargetError(f"A target has 1 to {MOST_THREADS} cores, not {config['num-cores']}.")
    _check_cpu(parsed)
    return tvm.target.Target(config)


def _may_lack_amx(config: dict[str, Any], here: bool) -> bool:
    """Return whether a processor that has AMX by its name may not be used with it.

    The user may have named the extension. Whether another machine permits it is not known.
    """
    named = any("amx" in feature for feature in config.get("mattr", ()))
    has = tvm.target.codegen.llvm_cpu_has_features
    return not named and has("amx-tile", tvm.target.Target(config)) and not (here and permitted())


def _check_cpu(target: tvm.target.Target) -> None:
    """Raise TargetError for a name that LLVM does not know, and would replace by a default.

    An unknown architecture would abort the process.
    """
    codegen = tvm.target.codegen
    triple = str(target.attrs.get("mtriple", codegen.llvm_get_system_triple()))
    known = (*codegen.llvm_get_targets(), *_OTHER_NAMES)
    if not triple.startswith(tuple(map(str, known))):
        raise TargetError(f"LLVM does not know architecture {triple!r}; give a valid mtriple.")
    cpu = target.attrs.get("mcpu")
    if cpu is not None and not codegen.llvm_is_valid_cpu(str(cpu), triple):
        raise TargetError(f"LLVM does not know CPU {str(cpu)!r} of {triple}; give one that it has.")
    wanted = [str(feature) for feature in target.attrs.get("mattr", ())]
    if wanted:
        config = {str(k): v for k, v in target.export().items()}
        config["mattr"] = [f"+{feature[1:]}" for feature in wanted]  # only enabled ones are listed
        features = set(map(str, codegen.llvm_get_cpu_features(tvm.target.Target(config))))
        strange = [f for f in wanted if f[:1] not in ("+", "-") or f[1:] not in features]
        if strange:
            raise TargetError(f"LLVM has no feature {strange[0]!r} for {triple}; correct mattr.")


def parse(target: str | tvm.target.Target, kinds: Collection[str] = KINDS) -> tvm.target.Target:
    """Return ``target`` as a TVM Target of one of the kinds, by default those of this package."""
    parsed = parse_any(target)
    if parsed.kind.name not in kinds:
        *others, last = (_PURPOSES.get(kind, repr(kind)) for kind in kinds)
        use = f"{', '.join(others)}, or {last}" if others else last
        raise TargetError(f"Target kind {parsed.kind.name!r} is not supported; use {use}.")
    return parsed


def parse_any(target: str | tvm.target.Target) -> tvm.target.Target:
    """Return ``target`` as a TVM Target, whatever its kind."""
    if isinstance(target, tvm.target.Target):
        return target
    try:
        return tvm.target.Target(target)
    except Exception as error:
        reason = str(error).strip().splitlines()[-1]
        raise TargetError(f"TVM does not know the target {target!r}: {reason}") from error


def num_workers(target: tvm.target.Target) -> int:
    """Return the worker threads of a CPU: its ``num-cores``, else all cores available."""
    cores = int(target.attrs.get("num-cores", 0))
    return cores if cores > 0 else available_cores()


def short_name(target: str) -> str:
    """Return the kind of a target given as JSON, with its CPU or architecture."""
    try:
        config = json.loads(target)
        return " ".join(str(config[key]) for key in ("kind", "mcpu", "arch") if key in config)
    except (ValueError, TypeError, AttributeError):
        return target


def is_native(target: tvm.target.Target) -> bool:
    """Return whether code for ``target`` runs on this machine's architecture."""
    native = str(tvm.target.codegen.llvm_get_system_triple())
    return triple_of(target).split("-")[0] == native.split("-")[0]


def triple_of(target: tvm.target.Target) -> str:
    """Return LLVM's triple of a target; that of this machine if it names none."""
    return str(target.attrs.get("mtriple", "") or tvm.target.codegen.llvm_get_system_triple())
