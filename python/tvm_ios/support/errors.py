# SPDX-License-Identifier: Apache-2.0
"""What the package raises when its user is wrong; each message says what to do.

The names under which C++ raises them are qualified: TVM has errors of its own by the same names.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tvm_ffi import register_error

from tvm_ios_runtime.cuda import DeviceFailure, explained


class TvmIosError(Exception):
    """The base of all errors of this package."""


@register_error("tvm_ios.ModelError")
class ModelError(TvmIosError, ValueError):
    """A network that cannot be read, or that has something this package cannot schedule."""


@register_error("tvm_ios.RelayError")
class RelayError(ModelError):
    """Relay that cannot be read.

    Attributes
    ----------
    line, column : int or None
        Where in the text, counted from 1; None where no place is to blame.
    """

    line: int | None = None
    column: int | None = None


@register_error("tvm_ios.ExpansionError")
class ExpansionError(RelayError):
    """Relay that would grow, when it is read or converted, beyond what a machine can hold."""


@register_error("tvm_ios.GraphError")
class GraphError(TvmIosError, ValueError):
    """An operator graph that cannot be scheduled: empty, cyclic, or with an edge out of range."""


@register_error("tvm_ios.ScheduleError")
class ScheduleError(TvmIosError, ValueError):
    """A schedule that does not exist, or that does not fit the network it is applied to."""


@register_error("tvm_ios.CostError")
class CostError(TvmIosError, ValueError):
    """A cost function's answer that is not one latency per stage."""


@register_error("tvm_ios.TargetError")
class TargetError(TvmIosError, ValueError):
    """A target that this package, or this machine, cannot compile for or run on."""


@register_error("tvm_ios.OptionError")
class OptionError(TvmIosError, ValueError):
    """An option out of its range."""


@register_error("tvm_ios.DatabaseError")
class DatabaseError(TvmIosError, ValueError):
    """A database of measurements that is none, is damaged, or cannot be read or written."""


@register_error("tvm_ios.DeviceError")
class DeviceError(TvmIosError, RuntimeError):
    """A device that cannot be reached, cannot measure, or measures what cannot be."""


@register_error("tvm_ios.UnsupportedError")
class UnsupportedError(DeviceError):
    """A kernel that a library does not have on this device, where another one will do."""


@contextmanager
def device_errors(device_id: int) -> Iterator[None]:
    """Raise DeviceError where a device has too little memory, or fails, within a ``with``."""
    try:
        with explained(device_id):
            yield
    except DeviceFailure as error:
        raise DeviceError(str(error)) from error
