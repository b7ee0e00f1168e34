# SPDX-License-Identifier: Apache-2.0
"""Conversion of PyTorch models to Relax modules; imports torch only if it is given a model."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import tvm

from ...sizes.size import OpenSizes
from ...support.errors import ModelError
from ...support.text import first_line, last_line
from ..dimensions import Given
from ..importing import captured
from .exported_file import check_exported
from .guards import assume_guards, assume_traced
from .open_inputs import open_symbols
from .shapes import export_at
from .symbols import Symbols
from .tracing import tracing

if TYPE_CHECKING:
    import torch

_EXTRA = "Reading PyTorch's models needs torch: pip install 'tvm-ios[torch]'."


def is_module(model: object) -> bool:
    """Return whether the model is a ``torch.nn.Module``."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(model, torch.nn.Module)


def is_exported(model: object) -> bool:
    """Return whether the model is a result of ``torch.export.export``."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(model, torch.export.ExportedProgram)


def from_module(module: torch.nn.Module, example_inputs: Sequence[torch.Tensor]) -> tvm.IRModule:
    """Convert a module in inference mode, for inputs of the given shapes.

    Raises
    ------
    ModelError
        If torch cannot export it, or an operator is not supported.
    """
    return from_exported(exported(module, example_inputs))


def exported(
    module: torch.nn.Module, example_inputs: Sequence[torch.Tensor], dynamic_shapes: Any = None
) -> torch.export.ExportedProgram:
    """Export a module in inference mode.

    Parameters
    ----------
    module : torch.nn.Module
    example_inputs : sequence of torch.Tensor
    dynamic_shapes : optional
        The dimensions that stay open, as ``torch.export.export`` takes them.

    Raises
    ------
    ModelError
        If torch cannot.
    """
    import torch

    _check_inference(module)
    inputs = tuple(example_inputs)
    try:
        with tracing(), torch.no_grad(), captured():
            return torch.export.export(module, inputs, dynamic_shapes=dynamic_shapes)
    except Exception as error:  # tracing raises various types
        raise ModelError(
            f"torch.export cannot export the module: {first_line(error)}; see its advice on "
            "data-dependent control flow."
        ) from error


def _check_inference(module: torch.nn.Module) -> None:
    """Raise ModelError if a part of the module is in training mode."""
    if module.training:
        raise ModelError("The module is in training mode; call its eval() first.")
    for name, part in module.named_modules():
        if part.training:
            raise ModelError(f"{name} is in training mode; call the module's eval() first.")


def from_exported(
    program: torch.export.ExportedProgram,
    given: Given | None = None,
    opened: OpenSizes | None = None,
) -> tvm.IRModule:
    """Convert an exported program, with its weights as constants.

    Parameters
    ----------
    program : torch.export.ExportedProgram
    given : Given, optional
        What the user says of the dimensions that are dynamic.
    opened : OpenSizes, optional
        Receives the dimensions that stay dynamic; without it none must.

    Raises
    ------
    ModelError
        If a shape stays dynamic, or an operator is not supported.
    """
    symbols, given = Symbols(), given or Given()
    if opened is not None:
        symbols = open_symbols(program, given, opened)
        assume_guards(program, symbols)
    elif program.range_constraints or given != Given():
        with tracing():
            program = export_at(program, given)
    module = _converted(program, symbols)
    if opened is not None:
        opened.assumes = False
    return module


def _converted(program: torch.export.ExportedProgram, symbols: Symbols) -> tvm.IRModule:
    from .convert import check_operators, convert
    from .decompose import decomposed

    try:
        with tracing(), captured():
            program = decomposed(program)
            check_operators(program, symbols)
            assume_traced(program, symbols)
            _check_pure(program)
            _move_to_host(program)
            return convert(program, symbols)
    except ModelError:
        raise
    except Exception as error:  # decompositions raise various types
        raise ModelError(f"The model cannot be converted: {last_line(error)}.") from error


def _check_pure(program: torch.export.ExportedProgram) -> None:
    """Raise ModelError if a model has side effects.

    They are visible only after the decomposition; a program may assign in place before it.
    """
    signature = program.graph_signature
    changed = {**signature.user_inputs_to_mutate, **signature.buffers_to_mutate}
    if changed:
        names = ", ".join(map(str, changed.values()))
        raise ModelError(f"The model changes {names} in place; export one that does not.")


def _move_to_host(program: torch.export.ExportedProgram) -> None:
    """Move tensors from a GPU to the CPU, which the later passes use."""
    from torch.export.passes import move_to_device_pass

    tensors = [*program.state_dict.values(), *program.constants.values()]
    inputs = (node.meta.get("val") for node in program.graph.nodes if node.op == "placeholder")
    if any(getattr(tensor, "is_cuda", False) for tensor in (*tensors, *inputs)):
        move_to_device_pass(program, "cpu")


def from_file(
    path: Path,
    trust: bool = False,
    given: Given | None = None,
    opened: OpenSizes | None = None,
) -> tvm.IRModule:
    """Convert a file that ``torch.export.save`` wrote; see `load_program` and `from_exported`."""
    return from_exported(load_program(path, trust), given, opened)


def load_program(path: Path, trust: bool = False) -> torch.export.ExportedProgram:
    """Read a file that ``torch.export.save`` wrote.

    Parameters
    ----------
    path : Path
        The file.
    trust : bool
        Whether the file may execute code that it contains.

    Raises
    ------
    ModelError
        If the file is not such a file, its model cannot be read, or it contains code and is not
        trusted.
    """
    try:
        import torch
    except ImportError as error:
        raise ModelError(_EXTRA) from error
    try:
        with tracing(), captured():
            if not trust:
                check_exported(path)
            _register_operators()
            return torch.export.load(path)
    except ModelError:
        raise
    except Exception as error:  # unpickling raises various types
        raise ModelError(
            f"{path} is damaged, or torch.export.save did not write it: {first_line(error)}."
        ) from error


def _register_operators() -> None:
    """Let PyTorch know the operators of quantised programs, which it does not by itself.

    Releases may have them elsewhere.
    """
    with suppress(ImportError):
        importlib.import_module("torch.ao.quantization.fx._decomposed")
