# SPDX-License-Identifier: Apache-2.0
"""``tvm-ios env``, and what a newcomer is told whose installation cannot work."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from dataclasses import replace
from importlib import metadata
from pathlib import Path

import pytest

from support.cli import COMMAND, assert_one_sentence
from support.cuda.toolkit import write_headers, write_nvcc
from support.paths import ROOT
from tvm_ios.cli.main import main
from tvm_ios.target import available_cores
from tvm_ios_entry.command import main as command
from tvm_ios_env import cgroup, cuda, gpu, machine, nvidia, report, requirements
from tvm_ios_env.diagnostics import diagnostics
from tvm_ios_env.machine import Cpu
from tvm_ios_env.requirements import REQUIREMENTS, problems

CPU = Cpu("Some CPU", "x86_64", 8, 8, 8, None, 0.1, "AVX2", 256, {"L1d": 32 << 10})
ALL_CORES = {"TVM_NUM_THREADS": "8"}


def test_env_tells_what_is_here(capsys) -> None:
    assert main(["env", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["python"] == ".".join(map(str, sys.version_info[:3]))
    for name in ("apache-tvm", "apache-tvm-ffi", "numpy"):
        assert found["packages"][name] == metadata.version(name)
    assert found["cpu"]["usable"] == len(os.sched_getaffinity(0))
    assert found["cpu"]["llvm"]
    assert set(found["gpu"]) == {"driver", "devices", "reason"}
    assert set(found["cuda_compiler"]["packages"]) == set(cuda.PARTS)
    assert main(["env"]) == 0
    text = capsys.readouterr().out
    assert found["cpu"]["name"] in text
    assert f"apache-tvm      {found['packages']['apache-tvm']}" in text


def test_env_imports_no_torch() -> None:
    code = "import sys; from tvm_ios_env import report; report.collect(); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert not {"torch", "tvm", "tvm_ffi", "numpy"} & set(done.stdout.split())


def test_the_versions_are_those_of_the_distribution() -> None:
    text = (ROOT / "pyproject.toml").read_text()
    for requirement in REQUIREMENTS:
        pin = f"{requirement.name}>={requirement.least},<{requirement.below}"
        assert f'"{pin}"' in text
        assert requirement.specifier == pin
    assert f'requires-python = ">={".".join(map(str, requirements.PYTHON))}"' in text


@pytest.mark.parametrize(
    ("name", "version", "message"),
    [
        ("apache-tvm", "0.26.1", "apache-tvm 0.26.1 is too old; run: pip install"),
        ("apache-tvm", "0.28.dev0", "apache-tvm 0.28.dev0 is too new for this release"),
        ("apache-tvm-ffi", "0.1.14", "apache-tvm-ffi 0.1.14 is too old"),
        ("apache-tvm-ffi", "0.1.15", "apache-tvm-ffi 0.1.15 crashes with apache-tvm 0.27"),
        ("apache-tvm", None, "apache-tvm is not installed; run: pip install 'apache-tvm>=0.27,"),
    ],
)
def test_a_wrong_version_is_one_sentence(name, version, message, monkeypatch, capsys) -> None:
    found = {n: metadata.version(n) for n in ("apache-tvm", "apache-tvm-ffi")} | {name: version}
    monkeypatch.setattr(requirements, "version", found.get)
    monkeypatch.setattr(requirements.util, "find_spec", lambda module: None)
    with pytest.raises(ImportError, match=re.escape(message)):
        requirements.check()
    monkeypatch.setattr(sys, "argv", ["tvm-ios", "bench", "zoo:squeezenet"])
    assert command() == 4
    assert_one_sentence(capsys.readouterr(), message)
    monkeypatch.setattr(sys, "argv", ["tvm-ios", "env"])
    assert command() == 0
    assert f"warning: {message}" in capsys.readouterr().out


@pytest.mark.parametrize("version", ["0.27", "0.27.0.post1", "0.27.3+cu130"])
def test_versions_that_do(version: str, monkeypatch) -> None:
    monkeypatch.setattr(requirements, "version", {"apache-tvm": version}.get)
    assert REQUIREMENTS[0].problem() is None


def test_tvm_from_its_sources_has_no_version(monkeypatch) -> None:
    monkeypatch.setattr(requirements, "version", lambda name: None)
    assert problems() == []


def test_an_old_python(monkeypatch) -> None:
    monkeypatch.setattr(requirements, "PYTHON", (99, 0))
    assert "is too old; install tvm-ios for Python 99.0 or newer" in problems()[0]


def test_importing_with_a_wrong_version_says_so_before_tvm_is_loaded(tmp_path: Path) -> None:
    info = tmp_path / "apache_tvm-0.20.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: apache-tvm\nVersion: 0.20\n")
    code = "import sys\ntry:\n import tvm_ios\nfinally:\n print('tvm' in sys.modules)"
    path = os.pathsep.join([str(tmp_path), *filter(None, sys.path)])
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": path},
    )
    assert done.stdout == "False\n"
    assert done.stderr.splitlines()[-1].startswith("ImportError: apache-tvm 0.20 is too old; run:")


def test_a_library_that_was_not_built(tmp_path: Path) -> None:
    environment = {**os.environ, "TVM_IOS_LIBRARY_PATH": str(tmp_path)}

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [*COMMAND, *arguments]
        return subprocess.run(command, capture_output=True, text=True, env=environment)

    bench = run("bench", "zoo:squeezenet")
    assert (bench.returncode, bench.stdout) == (4, "")
    assert bench.stderr.startswith(f"error: libtvm_ios.so is not in {tmp_path}, which TVM_IOS_LIB")
    assert bench.stderr.count("\n") == 1
    assert "pip install ." in bench.stderr
    assert "warning: libtvm_ios.so is not in" in run("env").stdout


def test_an_interrupt_while_it_is_loaded(monkeypatch, capsys) -> None:
    class Loading:
        def __getattr__(self, name: str) -> None:
            raise KeyboardInterrupt

    monkeypatch.setitem(sys.modules, "tvm_ios.cli.main", Loading())
    assert command() == 130
    assert capsys.readouterr().err == "interrupted\n"


def test_nothing_to_warn_of() -> None:
    assert diagnostics(CPU, ALL_CORES, "/usr/bin/g++") == []


@pytest.mark.parametrize(
    ("cpu", "environment", "message"),
    [
        (CPU, {}, "By itself TVM uses 4 of 8 cores"),
        (CPU, {"TVM_NUM_THREADS": "2"}, "TVM_NUM_THREADS=2 leaves TVM 2 of 8 cores"),
        (CPU, {"OMP_NUM_THREADS": "1"}, "OMP_NUM_THREADS=1 leaves TVM 1 of 8 cores"),
        (CPU, {"OMP_NUM_THREADS": "4,2"}, "OMP_NUM_THREADS=4,2 is not a number of threads"),
        (replace(CPU, usable=2, physical=2), ALL_CORES, "may run on 2 of 8 cores"),
        (
            replace(CPU, quota=2.5),
            ALL_CORES,
            "grants the time of 2.5 of 8 cores: schedules are made for 3 threads",
        ),
        (replace(CPU, physical=4), ALL_CORES, "8 hyper-threads share 4 cores"),
        (replace(CPU, load=7.0), ALL_CORES, "Other work runs here (load 7.0 on 8 cores)"),
    ],
)
def test_diagnostics(cpu: Cpu, environment: dict[str, str], message: str) -> None:
    (sentence,) = diagnostics(cpu, environment, "/usr/bin/g++")
    assert message in sentence
    assert sentence.endswith(".")


def test_other_architectures_have_all_their_cores() -> None:
    assert diagnostics(replace(CPU, architecture="aarch64"), {}, "/usr/bin/g++") == []


def test_no_compiler(monkeypatch, capsys) -> None:
    monkeypatch.setenv("CXX", "no-such-compiler")
    assert report.find_linker() is None
    assert main(["env"]) == 0
    assert "warning: No C++ compiler was found" in capsys.readouterr().out


def test_no_driver(monkeypatch) -> None:
    monkeypatch.setattr(gpu, "_DRIVER", "libnosuchdriver.so.1")
    found = gpu.gpus()
    assert (found.driver, found.devices) == (None, ())
    assert "no NVIDIA driver" in found.reason


def compiler(headers: str | None = "/headers", **others: str | None) -> cuda.CudaCompiler:
    versions = {"bindings": "13.1.0", "nvrtc": "13.5.37", "runtime": "13.5.37", "cccl": "13.3.5"}
    found = (others.pop(name, version) for name, version in versions.items())
    return cuda.CudaCompiler(dict(zip(cuda.PARTS, found, strict=True)), headers, **others)


NOTHING = dict.fromkeys(("headers", "bindings", "nvrtc", "runtime", "cccl"))
NVRTC = "NVRTC 13.5.37, headers of /headers"
NVCC = "/cuda/nvcc"


@pytest.mark.parametrize(
    ("found", "told", "advice"),
    [
        (compiler(), NVRTC, None),
        (compiler(**NOTHING), "not installed, which only compiling for a GPU needs (pip", None),
        (compiler(runtime=None, cccl=None, nvcc=NVCC), NVRTC, None),
        (compiler(None, cccl=None, nvcc=NVCC), NVCC, nvidia.SLOWER),
        (compiler(None, cccl=None, nvcc=NVCC, mode="nvcc"), NVCC, None),
        (compiler(None, nvrtc=None, cccl=None, nvcc=NVCC), NVCC, None),
        (compiler(mode="nvcc"), "not installed, which", None),
        (
            compiler(None, toolkit="/cuda", nvcc=NVCC), "NVRTC 13.5.37, without headers",
            nvidia.missing_headers("/cuda"),
        ),
        (
            compiler(None, cccl=None, mode="nvrtc"), "not installed, which",
            "Compiling for a GPU lacks nvidia-cuda-cccl: pip install 'tvm-ios[cuda]'.",
        ),
        (
            compiler(bindings=None, cccl=None), "not installed, which",
            "Compiling for a GPU lacks cuda-bindings: pip install 'tvm-ios[cuda]'.",
        ),
        (
            compiler(None), "not installed, which",
            "Compiling for a GPU lacks headers: pip install 'tvm-ios[cuda]'.",
        ),
        (
            compiler(None, cccl=None, nvrtc="12.8.93"), "not installed, which",
            "Compiling for a GPU lacks nvidia-cuda-nvrtc of CUDA 13 (that of 12.8.93 is installed) "
            "and nvidia-cuda-cccl: pip install 'tvm-ios[cuda]'.",
        ),
    ],
)  # fmt: skip
def test_the_compiler_for_gpus(found: cuda.CudaCompiler, told: str, advice: str | None) -> None:
    assert str(found).startswith(told)
    assert found.advice() == advice


def test_env_names_the_headers(monkeypatch, capsys, tmp_path: Path) -> None:
    versions = dict.fromkeys(cuda.PARTS, "13.0")
    monkeypatch.setattr(cuda, "version", versions.get)
    monkeypatch.delenv("TVM_CUDA_COMPILE_MODE", raising=False)
    monkeypatch.setenv("CUDA_PATH", str(tmp_path))
    facts = report.as_text(report.collect())
    assert "cuda compiler   NVRTC 13.0, without headers\n" in facts
    assert "warning: NVRTC needs cuda_runtime.h and cuda/std/cstdint, which CUDA_PATH=/" in facts
    write_headers(tmp_path)
    include = str(tmp_path / "include")
    assert main(["env", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["cuda_compiler"]["headers"] == include
    assert f"cuda compiler   NVRTC 13.0, headers of {include}\n" in report.as_text(found)
    assert not any("NVRTC" in sentence for sentence in found["warnings"])


def test_env_tells_of_nvcc_in_place_of_nvrtc(monkeypatch, tmp_path: Path) -> None:
    """The toolkit that nvcc belongs to has no headers either."""
    monkeypatch.setattr(cuda, "version", dict.fromkeys(cuda.PARTS[:2], "13.0").get)
    monkeypatch.setattr(nvidia, "nvidia_directories", list)
    program = write_nvcc(tmp_path / "bin")
    monkeypatch.setenv("PATH", str(program.parent), prepend=os.pathsep)
    for name in ("CUDA_PATH", "TVM_CUDA_COMPILE_MODE"):
        monkeypatch.delenv(name, raising=False)
    facts = report.as_text(report.collect())
    assert f"cuda compiler   {program}\n" in facts
    assert f"warning: {nvidia.SLOWER}" in facts
    monkeypatch.setenv("TVM_CUDA_COMPILE_MODE", "nvrtc")
    facts = report.as_text(report.collect())
    assert "warning: Compiling for a GPU lacks nvidia-cuda-runtime and nvidia-cuda-cccl: p" in facts


def test_a_compiler_for_gpus_that_is_there_in_part(monkeypatch, capsys) -> None:
    real = cuda.version
    monkeypatch.setattr(cuda, "version", lambda n: "13.0" if "nvrtc" in n else real("no such"))
    monkeypatch.setattr(cuda.shutil, "which", lambda name: None)
    monkeypatch.setattr(cuda, "find_headers", lambda: None)
    monkeypatch.delenv("CUDA_PATH", raising=False)
    facts = report.as_text(report.collect())
    assert "cuda compiler   not installed" in facts
    assert "warning: Compiling for a GPU lacks cuda-bindings and nvidia-cuda-runtime and" in facts


def test_the_parts_are_those_of_the_extra() -> None:
    text = (ROOT / "pyproject.toml").read_text()
    assert all(f'"{name}=={nvidia.MAJOR}.*"' in text for name in cuda.PARTS)


def test_a_system_that_is_silent(monkeypatch, tmp_path: Path) -> None:
    for name in ("_SYSTEM", "_CPUINFO"):
        monkeypatch.setattr(machine, name, tmp_path / "none")
    monkeypatch.setattr(cgroup, "_PROCESS", tmp_path / "none")
    cpu = machine.this_cpu()
    assert (cpu.name, cpu.physical, cpu.quota, cpu.caches) == ("unknown", None, None, {})
    assert diagnostics(replace(cpu, load=0.0), {"TVM_NUM_THREADS": str(cpu.usable)}, "g++") == []


@pytest.mark.parametrize(
    ("granted", "threads"), [(None, 4), (8.0, 4), (2.1, 3), (2.0, 2), (0.1, 1)]
)
def test_threads_are_as_many_as_cores_are_granted(
    granted: float | None, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine, "_USABLE", (0, 1, 4, 5))
    monkeypatch.setattr(machine, "granted_cores", lambda: granted)
    assert machine.default_threads() == available_cores() == threads


def test_hyper_threads_come_last(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Cores 0 and 4 are one, as are 1 and 5; 2 and 6 as well, of which one may be used."""
    for core in range(8):
        folder = tmp_path / f"cpu{core}" / "topology"
        folder.mkdir(parents=True)
        (folder / "thread_siblings_list").write_text(f"{core % 4},{core % 4 + 4}\n")
    monkeypatch.setattr(machine, "_SYSTEM", tmp_path)
    monkeypatch.setattr(machine, "_USABLE", (0, 1, 4, 5, 6))
    assert machine.spread_cores(1) == machine.spread_cores(3) == {0, 1, 6}
    assert machine.spread_cores(4) == {0, 1, 4, 5, 6}
