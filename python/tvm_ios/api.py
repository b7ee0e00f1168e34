# SPDX-License-Identifier: Apache-2.0
"""The entry points: :func:`compile` schedules and compiles a network, :func:`load` loads one."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import tvm

from .backend.base import AnyKind
from .backend.registry import kind_of
from .compiler import artifact, signatures, steps
from .compiler.any_shape import Load, at_sizes, networks_of_any_shape, with_any_shape
from .compiler.scheduler import Scheduler
from .frontend import pytorch
from .frontend.dimensions import Given
from .frontend.models import load_model
from .frontend.pytorch import tensors as torch_tensors
from .frontend.relax_modules import from_relax
from .lowering.export import check_linker
from .measure.transport.locations import LocalRunner
from .schedule.options import Options
from .schedule.schedule import Schedule
from .schedule.versions import modernized_options
from .sizes.size import OpenSizes
from .support.errors import ModelError, OpenShapeError, OptionError, device_errors
from .support.files import replacing
from .support.folders import TemporaryFolder
from .support.progress import COMPILING, numbering, working

_Read = Callable[["_Source", OpenSizes | None], Scheduler]
"""Reads and prepares a network; dimensions that stay open become those of the sizes."""


class CompiledModel:
    """A compiled network, ready to be called; several threads may call it at once.

    :func:`compile` and :func:`load` return it.

    Attributes
    ----------
    schedules : tuple of Schedule
        The schedules that the network runs, one for each shape that it was compiled for.
    schedule : Schedule
        The first of them.
    inputs, outputs : tuple of TensorInfo
        Names, shapes and data types; a dimension is None if the model was compiled for several
        sizes of it.
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
        self.schedules = artifact.schedules_of(model, str(path))
        self.schedule = self.schedules[0]

    def __call__(self, *inputs: Any) -> Any:
        """Run the network once.

        Parameters
        ----------
        *inputs : numpy.ndarray, torch.Tensor, or another library's tensor on the GPU
            The inputs, in order. An input is read in place if it is contiguous and aligned to 64
            bytes, unless the model runs on a GPU and the input lies on the host.

        Returns
        -------
        numpy.ndarray, torch.Tensor or tvm_ffi.Tensor, or a tuple of them
            A tuple if the network has several outputs. The outputs are PyTorch tensors if an input
            is one. They lie on the GPU if an input does. The call is then asynchronous: it enqueues
            the network on the current stream (PyTorch's if an input is a PyTorch tensor, else
            TVM's) and does not synchronize.

        Raises
        ------
        ValueError
            If an input has a type or a shape that the model does not take, or lies on another GPU.
        DeviceError
            If the GPU fails or runs out of memory.
        """
        with device_errors(self._device_id):
            results = tuple(torch_tensors.run(self._model, self._device_id, inputs))
        return results if len(results) > 1 else results[0]

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model as a shared library for :func:`load` and ``tvm_ios_runtime.load``.

        Raises
        ------
        OptionError
            If the file name does not end with ``.so``.
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
    shapes: Mapping[str, Sequence[Sequence[int]]] | None = None,
    batch_sizes: Sequence[int] | None = None,
    dims: Mapping[str, int | tuple[int, int]] | None = None,
    dynamic_shapes: Any = None,
    params: str | os.PathLike[str] | None = None,
    trust: bool = False,
    search: bool = True,
    schedule: Schedule | str | os.PathLike[str] | None = None,
    sample: Sequence[np.ndarray] | None = None,
    **options: Any,
) -> CompiledModel:
    """Schedule and compile a network for this machine.

    Several threads may compile at once. They take turns where TVM or PyTorch has one state for all
    threads: while a function is imported or built, and while PyTorch traces a program. Searches run
    beside each other, and so do their measurements.

    Parameters
    ----------
    model : torch.nn.Module, torch.export.ExportedProgram, tvm.IRModule, path or str
        The network. A path names an ONNX file, a file that ``torch.export.save`` wrote, or one in
        another format that is installed. A string may also be such a name as ``zoo:squeezenet``.
    example_inputs : sequence of torch.Tensor, optional
        Inputs for a ``torch.nn.Module``, which define the shapes. Required for a module, not
        allowed otherwise.
    target : str or tvm.target.Target
        A target that this machine can run. A bare ``llvm`` means this machine's CPU, ``cuda`` its
        GPU.
    threads : int, optional
        The number of worker threads; by default one per available core.
    device_id : int
        The GPU to use if the target is ``cuda``.
    input_shapes, batch
        Values for the dimensions that a model leaves open; see
        :func:`tvm_ios.frontend.models.load_model`.
    shapes : mapping of str to sequence of shapes, optional
        One or several shapes of inputs, by name: each has a function and a schedule of its own.
        Every input that is named has as many; those that are not keep their shape. Inputs of a
        module have the names of its ``forward``'s parameters. A model that leaves dimensions open
        takes any other sizes, too.
    batch_sizes : sequence of int, optional
        The same for several batch sizes. Where a model has no open dimensions, other batches are
        split into parts of these sizes, and padded, unless the network mixes the rows of a batch.
    dims : mapping of str to int or (int, int), optional
        Sizes of the dimensions that a model leaves open, by their names; or bounds, between which
        they stay open. What is open may be of any size.
    dynamic_shapes : optional
        The dimensions of ``example_inputs`` that stay open, as ``torch.export.export`` takes them.
    params : path, optional
        The file with the weights, for a format that has such files.
    trust : bool
        Whether a ``.pt2`` file may execute code that it contains. An ordinary network that
        ``torch.export.save`` wrote contains none, and loads without trust.
    search : bool
        If False and no schedule is given, nothing is measured and every operator gets a stage of
        its own.
    schedule : Schedule or path, optional
        A schedule to apply instead of searching for one.
    sample : sequence of numpy.ndarray, optional
        Inputs on which the error of the precision ``auto`` is measured; by default random ones.
    **options
        Fields of :class:`tvm_ios.options.Options`, such as ``database`` and ``seed``.

    Returns
    -------
    CompiledModel

    Raises
    ------
    ModelError, ScheduleError, TargetError, OptionError, DatabaseError, DeviceError
    """
    check_linker()
    searches = search and schedule is None
    kind = kind_of(target)
    runner = kind.runner(device_id) if searches else LocalRunner(device_id)
    resolved = steps.resolve(kind, target, threads, runner, runs=True)
    given = schedule if isinstance(schedule, Schedule | None) else Schedule.load(schedule)
    chosen_options = Options(**modernized_options(options)).applying(given)
    if dynamic_shapes is not None:
        model, example_inputs = _exported(model, example_inputs, dynamic_shapes), None
    source = _Source(model, example_inputs, input_shapes, batch, dims, params, trust)
    sources = [source]
    if shapes or batch_sizes:
        _check_several(kind, shapes, batch_sizes, given, sample)
        sources = source.at_shapes(shapes or {}) or source.at_batches(batch_sizes or [])
    with ExitStack() as stack:
        stack.enter_context(numbering(() if searches else COMPILING))

        def read(source: _Source, opened: OpenSizes | None) -> Scheduler:
            with working("reading the network"):
                mod = source.load(opened)
            prepared = steps.prepare(kind, mod, resolved, chosen_options, runner, sample=sample)
            return stack.enter_context(closing(prepared))

        def choose(scheduler: Scheduler) -> Schedule:
            return steps.choose(scheduler, given, search=search)

        failure: OpenShapeError | None = None
        if shapes or batch_sizes:
            networks = _at_named_sizes(source, sources, read, choose)
        else:
            try:
                networks = [(scheduler := read(source, None), choose(scheduler))]
            except OpenShapeError as error:
                if kind.device != "cpu" or given is not None or sample is not None:
                    raise
                failure = error
                networks = networks_of_any_shape(_loader(source, read), failure, search=search)
        folder = TemporaryFolder()
        path = folder.path / "model.so"
        if len(networks) > 1 or failure is not None:
            signatures.write(networks, path, runner, failure)
        else:
            steps.write(steps.build(*networks[0]), path)
    return CompiledModel(path, folder, device_id)


def _loader(source: _Source, read: _Read) -> Load:
    """Return what reads the network of a source at given sizes."""
    return lambda opened=None, shapes=None, batch=None: read(
        source.with_sizes(shapes, batch), opened
    )


def _at_named_sizes(
    source: _Source,
    sources: Sequence[_Source],
    read: _Read,
    choose: Callable[[Scheduler], Schedule],
) -> signatures.Networks:
    """Return a function for each of several sizes, and one of any sizes if there is such."""
    schedulers = [at_sizes(_loader(each, read)) for each in sources]
    networks = [(scheduler, choose(scheduler)) for scheduler in schedulers]
    return (
        networks if source.examples is not None else with_any_shape(networks, _loader(source, read))
    )


def _exported(model: Any, examples: Sequence[Any] | None, dynamic_shapes: Any) -> Any:
    """Return an exported program of a module some of whose dimensions stay open."""
    if not pytorch.is_module(model) or examples is None:
        raise OptionError("dynamic_shapes apply only to a torch.nn.Module with example_inputs.")
    return pytorch.exported(model, examples, dynamic_shapes)


def _check_several(
    kind: AnyKind,
    shapes: Mapping[str, Sequence[Sequence[int]]] | None,
    batch_sizes: Sequence[int] | None,
    schedule: Schedule | None,
    sample: Sequence[np.ndarray] | None,
) -> None:
    """Raise OptionError for arguments that are at odds with several shapes."""
    signatures.check_kind(kind)
    if shapes and batch_sizes:
        raise OptionError("shapes and batch_sizes exclude each other; give one.")
    if schedule is not None or sample is not None:
        raise OptionError("A schedule, or a sample, is of one shape; leave it out, or the others.")


def load(path: str | os.PathLike[str], device_id: int = 0) -> CompiledModel:
    """Load a library that :meth:`CompiledModel.save` or ``tvm-ios compile`` wrote.

    Parameters
    ----------
    path : path
        The shared library.
    device_id : int
        The GPU to run on if the library was compiled for one.

    Returns
    -------
    CompiledModel

    Raises
    ------
    ModelError
        If the file is not a library of this package.
    TargetError
        If the library was compiled for a CPU that this machine cannot run.
    """
    return CompiledModel(Path(path), device_id=device_id)


@dataclass(frozen=True)
class _Source:
    """What a network is read from, and at which shapes; see :func:`compile`."""

    model: Any
    examples: Sequence[Any] | None
    input_shapes: Mapping[str, Sequence[int]] | None
    batch: int | None
    dims: Mapping[str, int | tuple[int, int]] | None
    params: str | os.PathLike[str] | None
    trust: bool

    def load(self, opened: OpenSizes | None = None) -> tvm.IRModule:
        """Read the network; dimensions that stay open become those of ``opened``."""
        model = self.model
        if pytorch.is_module(model):
            if self.examples is None:
                raise ModelError(
                    "A torch.nn.Module does not define input shapes; give example_inputs."
                )
        elif self.examples is not None:
            raise OptionError("example_inputs apply only to a torch.nn.Module; leave them out.")
        if isinstance(model, (str, os.PathLike)):
            return load_model(
                os.fspath(model),
                self.input_shapes,
                self.batch,
                self.params,
                self.trust,
                self.dims,
                opened,
            )
        if self.params is not None:
            raise OptionError("params apply only to files; leave them out.")
        sizes = Given(self.input_shapes or {}, self.batch, self.dims or {})
        if pytorch.is_exported(model):
            return pytorch.from_exported(model, sizes, opened)
        if isinstance(model, tvm.IRModule):
            return from_relax(model, sizes, opened)
        if sizes != Given():
            raise OptionError(
                "input_shapes, batch and dims do not apply to a torch.nn.Module; leave them out, "
                "or give dynamic_shapes."
            )
        if self.examples is not None:
            return pytorch.from_module(model, self.examples)
        raise ModelError(
            f"A model must be a torch.nn.Module, an exported program, a Relax module or a path; "
            f"got {type(model).__name__}."
        )

    def with_sizes(self, shapes: Mapping[str, Sequence[int]] | None, batch: int | None) -> _Source:
        """Return the source with sizes for what the network leaves open."""
        if shapes is not None:
            return replace(self, input_shapes={**(self.input_shapes or {}), **shapes})
        return self if batch is None else replace(self, batch=batch)

    def at_shapes(self, shapes: Mapping[str, Sequence[Sequence[int]]]) -> list[_Source]:
        """Return the sources of the network at several shapes."""
        for name, its in shapes.items():
            if not all(isinstance(shape, Sequence) for shape in its):
                raise OptionError(f"shapes of {name} must be a list of shapes; got {its!r}.")
        if len({len(its) for its in shapes.values()}) > 1:
            raise OptionError("Every input in shapes must have as many of them as the others.")
        choices = [
            dict(zip(shapes, its, strict=True)) for its in zip(*shapes.values(), strict=True)
        ]
        if self.examples is None:
            return [
                replace(self, input_shapes={**(self.input_shapes or {}), **choice})
                for choice in choices
            ]
        return [
            replace(self, examples=pytorch.resized(self.model, self.examples, choice))
            for choice in choices
        ]

    def at_batches(self, sizes: Sequence[int]) -> list[_Source]:
        """Return the sources of the network at several batch sizes."""
        if self.examples is None:
            return [replace(self, batch=size) for size in sizes]
        return [replace(self, examples=pytorch.with_batch(self.examples, size)) for size in sizes]
