# SPDX-License-Identifier: Apache-2.0
"""The measurement database: a stage that was timed on a device is not timed there again."""

from .identity import DeviceIdentity, cpu_model, package_version
from .row import Row
from .store import MeasurementDatabase

__all__ = ["DeviceIdentity", "MeasurementDatabase", "Row", "cpu_model", "package_version"]
