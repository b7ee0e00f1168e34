# SPDX-License-Identifier: Apache-2.0
"""What identifies a device: its CPU, the target, the number of threads, and the code."""

from __future__ import annotations

import platform

import pytest
import tvm

from support.networks import NATIVE
from tvm_ios.database import DeviceIdentity, cpu_model, package_version
from tvm_ios.database.identity import cpu_name, gpu_model


@pytest.mark.parametrize("threads", [1, 2])
def test_this_machine(threads: int) -> None:
    target = tvm.target.Target({**NATIVE.export(), "num-cores": threads})
    here = DeviceIdentity.here(target)
    assert here == DeviceIdentity(
        cpu_model(), str(target), threads, package_version(), str(tvm.__version__)
    )
    assert here.is_this_machine
    assert here.is_this_version
    assert here.kind == "llvm"
    there = DeviceIdentity.of("another CPU", target)
    assert (there.cpu, there.threads) == ("another CPU", 1)
    assert not there.is_this_machine


@pytest.mark.parametrize(("field", "value"), [("tvm_ios", "0.0.1"), ("tvm", "0.0.1")])
def test_another_version(field: str, value: str) -> None:
    other = DeviceIdentity(**{**vars(DeviceIdentity.here(NATIVE)), field: value})
    assert not other.is_this_version
    assert other.is_this_machine


@pytest.mark.parametrize(
    ("target", "kind"),
    [('{"kind": "cuda", "arch": "sm_90"}', "cuda"), ("llvm -mcpu=core-avx2", "llvm"), ("1", "1")],
)
def test_kinds(target: str, kind: str) -> None:
    assert DeviceIdentity("a CPU", target, 1, "", "").kind == kind


@pytest.mark.parametrize(
    ("lines", "name"),
    [
        (["processor\t: 0", "model name\t: A 1", "CPU part: 2", "model name\t: B"], "m A 1"),
        (
            ["CPU part\t: 0xd0c", "CPU implementer\t: 0x41"],
            "m CPU implementer 0x41, CPU part 0xd0c",
        ),
        (["model name\t:", "no colon", "flags: fpu"], ""),
        ([], ""),
    ],
)
def test_names_of_processors(lines: list[str], name: str) -> None:
    assert cpu_name("m", lines) == name


def test_the_name_of_this_processor_has_its_architecture() -> None:
    assert cpu_model().startswith(platform.machine())


def test_the_driver_is_part_of_the_name_of_a_gpu() -> None:
    assert gpu_model("A100", "13.0") == "A100, CUDA 13.0"
