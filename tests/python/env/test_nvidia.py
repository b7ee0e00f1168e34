# SPDX-License-Identifier: Apache-2.0
"""CUDA's headers are found where TVM or an option tells NVRTC to look for them."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

import pytest

from support.cuda.toolkit import write_headers, write_nvcc
from tvm_ios_env import nvidia
from tvm_ios_env.nvidia import Headers, find_headers, missing_headers

TARGET = "targets/x86_64-linux/include"


@pytest.fixture
def toolkit(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """What CUDA_PATH names, still empty."""
    monkeypatch.setattr(nvidia.platform, "machine", lambda: "x86_64")
    monkeypatch.delenv("TVM_CUDA_NVRTC_EXTRA_OPTS", raising=False)
    monkeypatch.setenv("CUDA_PATH", str(tmp_path / "cuda"))
    return tmp_path / "cuda"


@pytest.mark.parametrize(
    ("runtime", "library"),
    [
        ("include", "include"),
        ("include", "include/cccl"),
        (TARGET, TARGET),
        (TARGET, f"{TARGET}/cccl"),
        ("include", f"{TARGET}/cccl"),
    ],
)
def test_headers_of_a_toolkit(runtime: str, library: str, toolkit: Path) -> None:
    write_headers(toolkit, runtime, library)
    assert find_headers() == Headers(toolkit, toolkit / runtime, toolkit / library)


@pytest.mark.parametrize(
    ("runtime", "library", "missing"),
    [
        ("include", "elsewhere", "cuda/std/cstdint"),
        ("elsewhere", "include/cccl", "cuda_runtime.h"),
        ("targets/sbsa-linux/include", "lib", "cuda_runtime.h and cuda/std/cstdint"),
    ],
)
def test_headers_that_a_toolkit_lacks(
    runtime: str, library: str, missing: str, toolkit: Path
) -> None:
    write_headers(toolkit, runtime, library)
    assert find_headers() is None
    assert missing_headers(str(toolkit)) == (
        f"NVRTC needs {missing}, which CUDA_PATH={toolkit} does not have in include, {TARGET} or "
        "cccl below them; name a toolkit that has such headers, or unset CUDA_PATH to use those of "
        "pip install 'tvm-ios[cuda]'."
    )


@pytest.mark.parametrize("machine", ["aarch64", "arm64"])
@pytest.mark.parametrize("triple", ["sbsa-linux", "{}-linux"])
def test_toolkits_of_arm(
    machine: str, triple: str, toolkit: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nvidia.platform, "machine", lambda: machine)
    folder = f"targets/{triple.format(machine)}/include"
    write_headers(toolkit, folder, f"{folder}/cccl")
    headers = find_headers()
    assert headers is not None
    assert headers.include == toolkit / folder


@pytest.mark.parametrize("option", ["-I{}", "-I={}", "--include-path={}"])
def test_headers_that_an_option_names(
    option: str, toolkit: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = tmp_path / "my headers"
    write_headers(toolkit, "include", str(library))
    assert find_headers() is None
    option = f"--fmad=false {shlex.quote(option.format(library))}"
    monkeypatch.setenv("TVM_CUDA_NVRTC_EXTRA_OPTS", option)
    headers = find_headers()
    assert headers == Headers(toolkit, toolkit / "include", library)
    assert headers.environment() == {
        "CUDA_PATH": str(toolkit),
        "TVM_CUDA_NVRTC_EXTRA_OPTS": f"{option} {shlex.quote(f'-I{library}')}",
    }


def test_options_with_an_open_quote(toolkit: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """TVM reports them; tvm-ios env has to go on."""
    write_headers(toolkit)
    monkeypatch.setenv("TVM_CUDA_NVRTC_EXTRA_OPTS", "-I'")
    assert find_headers() is not None


def test_without_a_named_toolkit(
    toolkit: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PyPI's packages come first, then the toolkit that a link in PATH leads to."""
    packages, links = tmp_path / "nvidia", tmp_path / "links"
    monkeypatch.setenv("CUDA_PATH", "")
    monkeypatch.setattr(nvidia, "nvidia_directories", lambda: [tmp_path / "others", packages])
    links.mkdir()
    toolkit.mkdir()
    (links / "nvcc").symlink_to(write_nvcc(toolkit / "bin"))
    monkeypatch.setenv("PATH", str(links), prepend=os.pathsep)
    assert find_headers() is None
    write_headers(toolkit)
    assert find_headers() == Headers(toolkit, toolkit / "include", toolkit / "include/cccl")
    write_headers(packages / "cu13")
    headers = find_headers()
    assert headers is not None
    assert headers.include == packages / "cu13" / "include"
