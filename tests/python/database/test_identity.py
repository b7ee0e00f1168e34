# SPDX-License-Identifier: Apache-2.0
"""The identity of a device: what tells its processor from others, and what older rows are."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
import tvm

from support.database import HERE, key
from support.networks import NATIVE
from tvm_ios.database import DeviceIdentity, MeasurementDatabase, cpu_model, package_version
from tvm_ios.database.identity import cpu_identity, gpu_model
from tvm_ios_env.machine import data_caches, this_cpu

VIRTUAL = """\
machine: x86_64
cores: 2
protocol: 1
L1d: 48K
L1i: 32K
L2: 2048K
L3: 307200K
processor\t: 0
cpu family\t: 6
model\t\t: 207
model name\t: Intel(R) Xeon(R) Processor
stepping\t: 2
cpu MHz\t\t: 2100.000
"""
ARM = """\
machine: aarch64
cores: 4
protocol: 1
CPU implementer\t: 0x41
CPU architecture: 8
CPU variant\t: 0x3
CPU part\t: 0xd0c
CPU revision\t: 1
"""


def test_this_machine_has_the_caches_and_the_name_that_the_system_tells() -> None:
    if this_cpu().name != "unknown":
        assert this_cpu().name in cpu_model()
    for cache in data_caches():
        kind = "d" if cache.level == 1 else ""
        assert f"L{cache.level}{kind} {cache.size >> 10}K" in cpu_model()


@pytest.mark.parametrize(
    ("field", "another"),
    [
        ("cpu family\t: 6", "cpu family\t: 15"),
        ("model\t\t: 207", "model\t\t: 143"),
        ("stepping\t: 2", "stepping\t: 8"),
        ("L1d: 48K", "L1d: 32K"),
        ("L2: 2048K", "L2: 1024K"),
        ("L3: 307200K", "L3: 36608K"),
        ("machine: x86_64", "machine: i686"),
    ],
)
def test_processors_of_one_name_are_told_apart(field: str, another: str) -> None:
    assert field in VIRTUAL
    assert cpu_identity(VIRTUAL) != cpu_identity(VIRTUAL.replace(field, another))


@pytest.mark.parametrize(
    ("field", "another"), [("cores: 2", "cores: 8"), ("2100.000", "3400.217"), ("r\t: 0", "r\t: 1")]
)
def test_a_processor_is_the_same_at_another_clock(field: str, another: str) -> None:
    assert field in VIRTUAL
    assert cpu_identity(VIRTUAL) == cpu_identity(VIRTUAL.replace(field, another))


def test_a_processor_without_a_name_has_its_parts() -> None:
    assert cpu_identity(ARM) == (
        "aarch64 CPU implementer 0x41, CPU architecture 8, CPU variant 0x3, CPU part 0xd0c, "
        "CPU revision 1"
    )
    assert cpu_identity("machine: riscv64\ncores: 1\nprotocol: 1\n") == "riscv64"


def test_a_row_with_the_name_alone_is_learned_from_but_is_no_price(tmp_path: Path) -> None:
    now = replace(HERE, cpu=cpu_identity(VIRTUAL))
    older = replace(HERE, cpu="x86_64 Intel(R) Xeon(R) Processor")
    assert now.cpu.startswith(f"{older.cpu}, ")
    with closing(MeasurementDatabase(tmp_path / "m.sqlite3")) as database:
        for device, seconds in ((older, 1.0), (now, 2.0)):
            database.add(device, key("a"), "conv", {"tiles": [seconds]})
            database.describe(device, {key("a"): (1.0,)})
        assert database.find(now, [key("a")])[key("a")].samples == {"tiles": [2.0]}
        assert [row.device for row in database.described(now)] == [now, older]


def test_only_the_whole_identity_is_this_machine() -> None:
    assert HERE.is_this_machine
    assert not replace(HERE, cpu=HERE.cpu + ", L4 1024K").is_this_machine


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


def test_the_driver_is_part_of_the_name_of_a_gpu() -> None:
    assert gpu_model("A100", "13.0") == "A100, CUDA 13.0"
