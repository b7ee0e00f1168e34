# SPDX-License-Identifier: Apache-2.0
"""Mutants of what is kept, and of what is looked up there."""

from __future__ import annotations

from .mutant import Mutant

MUTANTS = (
    Mutant(
        "rows of another device are prices",
        "python/tvm_ios/database/store.py",
        'self._select(f"{_same_device()} AND key IN ({marks})", device, batch)',
        'self._select(f"key IN ({marks})", None, batch)',
        ("measure/test_examples.py::test_another_device_prices_nothing",),
    ),
    Mutant(
        "latencies do not depend on where weights lie",
        "python/tvm_ios/measure/cache.py",
        "workload.rest, self.conditions)",
        "workload.rest)",
        ("database/test_search.py::test_where_weights_lie_is_part_of_what_is_measured",),
    ),
    Mutant(
        "the level that weights are read from is not told",
        "python/tvm_ios/compiler/pricing.py",
        "backend.identity(), backend.conditions(stage_builder))",
        "backend.identity(), None)",
        ("compiler/test_pricing.py::test_conditions_are_part_of_what_is_looked_up",),
    ),
    Mutant(
        "new samples replace earlier ones",
        "python/tvm_ios/database/row.py",
        "samples.setdefault(partitioning, []).extend(times)",
        "samples[partitioning] = list(times)",
        ("database/test_file.py::test_samples_add_up",),
    ),
    Mutant(
        "impossible samples are kept",
        "python/tvm_ios/database/row.py",
        "if math.isfinite(s) and s > 0.0]",
        "if s == s]",
        ("database/test_file.py::test_what_is_no_latency_is_never_stored",),
    ),
    Mutant(
        "latencies of a remote CPU are filed under this one",
        "python/tvm_ios/backend/cpu/backend.py",
        "return DeviceIdentity.of(machine.cpu, self._target, self.workers)",
        "return DeviceIdentity.here(self._target)",
        ("backend/cpu/measure/test_identity.py::test_latencies_belong_to_the_cpu_that_measures",),
    ),
)
