# SPDX-License-Identifier: Apache-2.0
"""One call from a network to a function that is faster: ``tvm_ios.compile``."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import tvm

from .backend.shared.export import check_linker
from .compiler import artifact, steps
from .frontend import pytorch, torch_tensors
from .frontend.models import load_model
from .measure.sites import Here
from .schedule.options import Options
from .schedule.schedule import Schedule
from .support.errors import ModelError, OptionError, device_errors
from .support.files import replacing
from .support.folders import TemporaryFolder
from .support.progress import working


class CompiledModel:
    """A network that was compiled, or loaded from a library; several threads may call it at once.

    Made by :func:`compile` and :func:`load`.

    Attributes
    ----------
    schedule : Schedule
        What it runs.
    inputs, outputs : tuple of TensorInfo
        Names, shapes and types.
    """

    def __init__(
        self,
        path: Path,
        owned: TemporaryFolder | None = None,
        device_id: int = 0,
    ) -> None:
        self._path, self._owned, self._device_id = path, owned, device_id
        model = self._model = artifact.load(path, device_id)
        self.inputs, self.outputs = model.inputs, model.outputs
        self.schedule = Schedule.from_dict(model.metadata["schedule"], str(path))

    def __call__(self, *inputs: Any) -> Any:
        """Run the network once.

        Parameters
        ----------
        *inputs : numpy.ndarray, torch.Tensor, or another library's tensor on the GPU
            In order; they are read where they are if they are contiguous and aligned to 64 bytes,
            and not on the host for a GPU.

        Returns
        -------
        numpy.ndarray, torch.Tensor or tvm_ffi.Tensor, or a tuple of them
            PyTorch's tensors where an input was one; a tuple where there are several outputs. Where
            an input lies on the GPU, results do, too: then the run is on the current stream, that
            of PyTorch where an input is a tensor of its, else TVM's, and nobody waits for it.

        Raises
        ------
        ValueError
            When an input is not of its type and shape, or on another GPU.
        DeviceError
            When the GPU that it was compiled for fails, or has too little memory.
        """
        with device_errors(self._device_id):
            results = tuple(torch_tensors.run(self._model, self._device_id, inputs))
        return results if len(results) > 1 else results[0]

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the shared library; :func:`load` reads it, and so does ``tvm_ios_runtime.load``.

        Raises
        ------
        OptionError
            When it is not named ``NAME.so``.
        """
        if Path(path).suffix != ".so":
            raise OptionError(f"A compiled model must be named NAME.so, got {path}.")
        with replacing(path) as (draft,):
            shutil.copyfile(self._path, draft)


def compile(
    model: Any,
    example_inputs: Sequence[Any] | None = None,
    *,
    target: str | tvm.target.Target = "llvm",
    threads: int | None = None,
    device_id: int = 0,
    input_shapes: Mapping[str, Sequence[int]] | None = None,
    batch: int | None = None,
    params: str | os.PathLike[str] | None = None,
    trust: bool = False,
    search: bool = True,
    schedule: Schedule | str | os.PathLike[str] | None = None,
    **options: Any,
) -> CompiledModel:
    """Schedule and compile a network for this machine.

    Parameters
    ----------
    model : torch.nn.Module, torch.export.ExportedProgram, tvm.IRModule, path or str
        A path is that of an ONNX file, of what ``torch.export.save`` wrote, or of a Relay file; a
        string may be ``zoo:NAME``, too.
    example_inputs : sequence of torch.Tensor, optional
        For a ``torch.nn.Module``, which has no shapes of its own.
    target : str or tvm.target.Target
        One that this machine can run; a bare ``llvm`` is its CPU, ``cuda`` its GPU.
    threads : int, optional
        By default all cores.
    device_id : int
        Which GPU, where the target is one.
    input_shapes, batch
        Of a file, what it leaves open; see :func:`tvm_ios.frontend.models.load_model`.
    params : path, optional
        The weights of a Relay file.
    trust : bool
        Whether a ``.pt2`` file may execute code that it brings. What ``torch.export.save`` writes
        of an ordinary network brings none, and needs no trust.
    search : bool
        Without it, unless a schedule is given, nothing is measured and each operator is a stage.
    schedule : Schedule or path, optional
        What to apply instead of searching.
    options
        Those of :class:`tvm_ios.options.Options`, such as ``database`` and ``seed``.

    Raises
    ------
    ModelError, ScheduleError, TargetError, OptionError, DatabaseError, DeviceError
    """
    check_linker()
    site = Here(device_id)
    resolved = steps.resolve(target, threads, site, runs=True)
    given = schedule if isinstance(schedule, Schedule | None) else Schedule.load(schedule)
    chosen_options = Options(**options).applying(given)
    with working("reading the network"):
        mod = _import(model, example_inputs, input_shapes, batch, params, trust)
    with closing(steps.prepare(mod, resolved, chosen_options, site)) as scheduler:
        executable = steps.build(scheduler, steps.choose(scheduler, given, search=search))
    folder = TemporaryFolder()
    path = folder.path / "model.so"
    steps.write(executable, path)
    return CompiledModel(path, folder, device_id)


def load(path: str | os.PathLike[str], device_id: int = 0) -> CompiledModel:
    """Load what :meth:`CompiledModel.save` or ``tvm-ios compile`` wrote.

    Parameters
    ----------
    path : path
    device_id : int
        Which GPU runs it, if it was compiled for one.

    Raises
    ------
    ModelError
        When it is no such library.
    TargetError
        When it is for another CPU.
    """
    return CompiledModel(Path(path), device_id=device_id)


def _import(
    model: Any,
    example_inputs: Sequence[Any] | None,
    input_shapes: Mapping[str, Sequence[int]] | None,
    batch: int | None,
    params: str | os.PathLike[str] | None,
    trust: bool,
) -> tvm.IRModule:
    if pytorch.is_module(model):
        if example_inputs is None:
            raise ModelError("A torch.nn.Module has no shapes; give example_inputs.")
    elif example_inputs is not None:
        raise OptionError("example_inputs are for a torch.nn.Module; leave them out.")
    if isinstance(model, (str, os.PathLike)):
        return load_model(os.fspath(model), input_shapes, batch, params, trust)
    if input_shapes or batch is not None or params is not None:
        raise OptionError("input_shapes, batch and params are for files; leave them out.")
    if example_inputs is not None:
        return pytorch.from_module(model, example_inputs)
    if pytorch.is_exported(model):
        return pytorch.from_exported(model)
    if isinstance(model, tvm.IRModule):
        return model
    raise ModelError(
        f"A model is a torch.nn.Module, an exported program, a Relax module, or a path; got "
        f"{type(model).__name__}."
    )
