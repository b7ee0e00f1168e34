# SPDX-License-Identifier: Apache-2.0
"""The exceptions that the package raises on wrong input; each message says how to correct it.

C++ raises them under qualified names, because TVM has errors with the same plain names.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from tvm_ffi import register_error

from tvm_ios_runtime.cuda import DeviceFailure, explained


class TvmIosError(Exception):
    """The base class of all errors of this package."""


@register_error("tvm_ios.ModelError")
class ModelError(TvmIosError, ValueError):
    """A network that cannot be read, or that has something this package cannot schedule."""


class OpenShapeError(ModelError):
    """A network some of whose dimensions are open.

    Parameters
    ----------
    inputs : mapping of str to sequence of str
        The open dimensions by name, and the inputs that have them.
    examples : mapping of str to int
        Sizes that they may be given.
    """

    def __init__(self, inputs: Mapping[str, Sequence[str]], examples: Mapping[str, int]) -> None:
        self._inputs, self._examples = inputs, examples
        self._reason = ""  # why it cannot be compiled for any sizes, where that was tried
        super().__init__(self._text(f"dims={dict(examples)}"))

    def because(self, reason: str) -> OpenShapeError:
        """Add the reason, and return the error."""
        self._reason = reason
        self.args = (self._text(f"dims={dict(self._examples)}"),)
        return self

    def on_command_line(self) -> str:
        """Return the message with the options of the command line."""
        return self._text(" ".join(f"--dim {n}={size}" for n, size in self._examples.items()))

    def _text(self, remedy: str) -> str:
        places = (f"{name} of {' and '.join(its)}" for name, its in self._inputs.items())
        reason = f" (not compiled for any sizes: {self._reason})" if self._reason else ""
        left_open = f"The model leaves dimensions open: {', '.join(places)}{reason}"
        return f"{left_open}; fix them with {remedy}."


class OpenBatchError(OpenShapeError):
    """A network of which the batch is open, the first dimension of inputs, and nothing else."""


@register_error("tvm_ios.RelayError")
class RelayError(ModelError):
    """Relay code that cannot be read.

    Attributes
    ----------
    line, column : int or None
        The position in the text, counted from 1; None if the error has no position.
    """

    line: int | None = None
    column: int | None = None


@register_error("tvm_ios.ExpansionError")
class ExpansionError(RelayError):
    """Relay code that would grow beyond any machine's memory when it is read or converted."""


@register_error("tvm_ios.GraphError")
class GraphError(TvmIosError, ValueError):
    """An operator graph that cannot be scheduled: empty, cyclic, or with an edge out of range."""


@register_error("tvm_ios.ScheduleError")
class ScheduleError(TvmIosError, ValueError):
    """A schedule that does not exist, or that does not fit the network it is applied to."""


@register_error("tvm_ios.CostError")
class CostError(TvmIosError, ValueError):
    """A result of a cost function that is not one latency per stage."""


@register_error("tvm_ios.TargetError")
class TargetError(TvmIosError, ValueError):
    """A target that this package, or this machine, cannot compile for or run on."""


@register_error("tvm_ios.OptionError")
class OptionError(TvmIosError, ValueError):
    """An invalid option, or an option out of its range."""


@register_error("tvm_ios.DatabaseError")
class DatabaseError(TvmIosError, ValueError):
    """A file that is not a valid measurement database, or cannot be read or written."""


@register_error("tvm_ios.DeviceError")
class DeviceError(TvmIosError, RuntimeError):
    """A device that cannot be reached, fails, or gives impossible measurements."""


@register_error("tvm_ios.UnsupportedError")
class UnsupportedError(DeviceError):
    """A kernel that a library lacks on this device; another kernel can replace it."""


@contextmanager
def device_errors(device_id: int) -> Iterator[None]:
    """Raise DeviceError if a device fails or lacks memory inside the ``with`` block."""
    try:
        with explained(device_id):
            yield
    except DeviceFailure as error:
        raise DeviceError(str(error)) from error
