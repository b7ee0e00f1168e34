# SPDX-License-Identifier: Apache-2.0
"""Why a test may be skipped where everything is installed: for what the machine is or has not."""

from __future__ import annotations

import re
from collections.abc import Iterable

import pytest

ALLOWED = re.compile(
    "|".join(
        (
            # A processor or a system of another kind.
            "this machine does not run [a-z0-9-]+",
            "takes two cores",
            "TVM's LLVM has no AArch64",
            "no file system can be mounted: .*",
            "AddressSanitizer reserves all addresses",
            # No GPU, or one where others have none.
            r"no NVIDIA driver \(.*\)",
            "the NVIDIA driver .*",
            "there is (a|one) GPU",
            "this machine has a driver",
            "this machine has (AMX|AVX-VNNI)",
            "compute-sanitizer .*",
            "PyTorch is installed without CUDA",
            "nvidia-cudnn-cu13 is not installed",  # PyPI's PyTorch brings it
            # What is no part of the project.
            "the kit of a lent machine is not beside the checkout",
            # Programs that the system may have.
            "no browser could be started: .*",
            "Graphviz is not installed",
            "qemu-aarch64 or aarch64-linux-gnu-gcc is not installed",
        )
    ),
    re.DOTALL,
)


def unknown(reports: Iterable[pytest.TestReport | pytest.CollectReport]) -> list[str]:
    """Return where and why tests were skipped for a reason that is not allowed."""
    found = []
    for report in reports:
        if isinstance(report.longrepr, tuple):
            path, line, reason = report.longrepr
            if not ALLOWED.fullmatch(reason.removeprefix("Skipped: ")):
                found.append(f"{path}:{line}: {reason}")
    return sorted(set(found))
