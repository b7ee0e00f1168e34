# SPDX-License-Identifier: Apache-2.0
"""What a user may do wrong with a CUDA device: one sentence each, and nothing half-written."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import tvm_ios
from support.cuda.cli import command
from support.cuda.fake_driver import Emulated, with_fake_driver
from support.cuda.model import refusal
from support.cuda.whole import settings
from support.networks import conv, relax_module
from tvm_ios.transform import InterOperatorSchedule

NETWORK = "zoo:nasrnn_small"
SM_80 = '{"kind": "cuda", "arch": "sm_80"}'
SM_90 = SM_80.replace("80", "90")
NO_DEVICE = {"TVM_IOS_FAKE_DRIVER_DEVICES": "0"}
SILENT = {"TVM_IOS_FAKE_DRIVER_COMPUTE": "0"}


@pytest.fixture(scope="module")
def deviceless(fake_driver: Path) -> Iterator[Emulated]:
    """A process that finds no device: one that has found some does not look again."""
    process = Emulated(fake_driver)
    yield process
    process.close()


@pytest.fixture(scope="module")
def made(deviceless: Emulated, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Libraries and schedules for three targets; none of them needs a device to be made."""
    directory = tmp_path_factory.mktemp("made")
    for name, target in (("sm_90", SM_90), ("sm_80", SM_80), ("cpu", "llvm")):
        arguments = ["compile", NETWORK, "--target", target, "--no-search", "-o", f"{name}.so"]
        arguments += ["--schedule-out", f"{name}.json"]
        status, _, error, _ = deviceless.call(command, directory, arguments, NO_DEVICE)
        assert (status, error) == (0, "")
    return directory


def refused(
    emulated: Emulated, made: Path, line: str, variables: dict[str, str], target: str = ""
) -> str:
    """The one sentence that a command ends with, which leaves no file behind."""
    before = sorted(file.name for file in made.iterdir())
    arguments = line.split() + (["--target", target] if target else [])
    status, out, error, after = emulated.call(command, made, arguments, variables)
    assert (status, out, after) == (4, "", before)
    assert error.startswith("error: ")
    assert error.count("\n") == 1
    return error


def timeline_of(name: str) -> str:
    """The command that runs the network of a schedule."""
    return f"show {name}.json --format perfetto --model {NETWORK} -o new.json"


COMPILE = f"compile {NETWORK} -o new.so --schedule-out new.json"
NONE = [
    (COMPILE, "cuda"),
    (COMPILE, SM_90),
    (f"{COMPILE} --no-search", "cuda"),
    ("run sm_90.so -o new.npz", ""),
    (timeline_of("sm_90"), ""),
]


@pytest.mark.parametrize(("line", "target"), NONE)
def test_no_device(deviceless: Emulated, made: Path, line: str, target: str) -> None:
    sentence = refused(deviceless, made, line, NO_DEVICE, target)
    assert "there is no CUDA device: run where nvidia-smi lists one" in sentence


BAD = [
    (f"{COMPILE} --device-id 7", "cuda", "no CUDA device 7: choose one from 0 to 1"),
    (COMPILE, SM_80, "This is code for sm_80, and device 0 (Stand-in 0) is sm_90"),
    (f"{COMPILE} --threads 2", "cuda", "number of threads is for a CPU"),
    (f"{COMPILE} --rpc-tracker 127.0.0.1:9 --rpc-key a", "cuda", "leave --rpc-tracker out"),
    (f"{COMPILE} --no-search", SM_80.replace("80", "50"), "older than sm_75"),
    (f"{COMPILE} --no-search", SM_80.replace("sm_80", "new"), "invalid CUDA arch"),
    (f"{COMPILE} --no-search --precision tf32", SM_80.replace("80", "75"), "leave it at fp32"),
    (f"{COMPILE} --schedule-in sm_80.json", "cuda", "for cuda sm_80, not for cuda sm_90"),
    (f"{COMPILE} --schedule-in cpu.json", "cuda", "not for cuda sm_90"),
    (f"{COMPILE} --schedule-in sm_90.json", "llvm", "made for cuda sm_90, not for llvm"),
    ("run sm_90.so -o new.npz --device-id 7", "", "no CUDA device 7"),
    ("run sm_80.so -o new.npz", "", "for a GPU of sm_80, but device 0 is sm_90"),
    ("run sm_90.so -o new.npz --device cpu", "", "was compiled for --device cuda"),
    (f"{timeline_of('sm_90')} --device-id 7", "", "no CUDA device 7"),
    (timeline_of("sm_80"), "", "This is code for sm_80, and device 0 (Stand-in 0) is sm_90"),
    (f"{timeline_of('cpu')} --cudnn", "", "cuDNN is for CUDA devices"),
]


@pytest.mark.parametrize(("line", "target", "sentence"), BAD)
def test_bad_input(emulated: Emulated, made: Path, line: str, target: str, sentence: str) -> None:
    assert sentence in refused(emulated, made, line, {}, target)


FAILING = [
    ("run sm_90.so -o new.npz", "", "cuMemAlloc:2:2", "too little free memory"),
    ("run sm_90.so -o new.npz", "", "cuGraphInstantiate:1:2", "too little free memory"),
    ("run sm_90.so -o new.npz", "", "cuLaunchKernel:3:719", "CUDA device 0 has failed"),
    ("run sm_90.so -o new.npz", "", "cuDevicePrimaryCtxRetain:1:46", "has CUDA device 0 to itself"),
    (COMPILE, "cuda", "cuMemAlloc:3:2", "out of memory in cuMemAlloc"),
    (COMPILE, "cuda", "cuDevicePrimaryCtxRetain:1:46", "has the CUDA device to itself"),
    (COMPILE, "cuda", "cuMemAlloc:1:214", "cuMemAlloc failed"),
    (timeline_of("sm_90"), "", "cuMemAlloc:3:2", "out of memory in cuMemAlloc"),
    (timeline_of("sm_90"), "", "cuEventCreate:3:2", "out of memory in cuEventCreate"),
    (timeline_of("sm_90"), "", "cuEventRecordWithFlags:3:719", "cuEventRecordWithFlags failed"),
]


@pytest.mark.parametrize(("line", "target", "call", "sentence"), FAILING)
def test_a_device_that_fails(
    emulated: Emulated, made: Path, line: str, target: str, call: str, sentence: str
) -> None:
    variables = {"TVM_IOS_FAKE_DRIVER_FAIL": call, **(SILENT if target else {})}
    said = refused(emulated, made, line, variables, target)
    assert sentence in said
    assert len(said) < 400  # no source of a kernel
    # What was allocated is free again: the device can be used.
    status, *_ = emulated.call(command, made, ["run", "sm_90.so"], {})
    assert status == 0


def calls_without_a_device(made: Path) -> list[str]:
    """What functions say where there is no device."""
    mod = relax_module(lambda emit, x: emit(conv(x, 4)), (1, 4, 6, 6))
    calls: list[Callable[[], object]] = [
        lambda: tvm_ios.compile(mod, target="cuda"),
        lambda: tvm_ios.compile(mod, target=SM_90),
        lambda: InterOperatorSchedule(SM_90)(mod),
        lambda: tvm_ios.load(made / "sm_90.so"),
    ]
    with settings(NO_DEVICE):
        return list(map(refusal, calls))


def calls_for_other_devices(made: Path) -> list[str]:
    return [
        refusal(lambda: tvm_ios.load(made / "sm_90.so", 7)),
        refusal(lambda: tvm_ios.load(made / "sm_80.so")),
    ]


def test_functions(emulated: Emulated, deviceless: Emulated, made: Path) -> None:
    *compiling, load = deviceless.call(calls_without_a_device, made)
    for said in compiling:
        assert said.startswith("DeviceError: there is no CUDA device")
    assert load.startswith("ModelError: The model is for a GPU, and there is no CUDA device")
    number, other = emulated.call(calls_for_other_devices, made)
    assert "no CUDA device 7" in number
    assert "for a GPU of sm_80, but device 0 is sm_90" in other


@pytest.mark.parametrize("case", ["old", "none"])
def test_drivers(fake_driver: Path, made: Path, case: str) -> None:
    """A driver that is too old, and none at all, which a process asks once."""
    environment = dict(os.environ) if case == "none" else with_fake_driver(fake_driver)
    if case == "none" and Path("/dev/nvidiactl").exists():
        pytest.skip("this machine has a driver")
    command = [sys.executable, "-m", "tvm_ios", "compile", NETWORK, "--target", "cuda"]
    done = subprocess.run(
        [*command, "-o", "new.so"], cwd=made, check=False, capture_output=True, text=True,
        env=environment | {"TVM_IOS_FAKE_DRIVER_VERSION": "11080"}, timeout=120,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (4, "")
    assert done.stderr.startswith("error: ")
    assert done.stderr.count("\n") == 1
    assert ("11.8" if case == "old" else "libcuda.so.1") in done.stderr
    assert not (made / "new.so").exists()
