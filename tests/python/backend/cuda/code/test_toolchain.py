# SPDX-License-Identifier: Apache-2.0
"""CUDA's compiler is found where PyPI puts it, computes exactly, and is missed early."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import tvm
from tvm import relax

import tvm_ios
from support.cuda.fake_driver import TARGET, with_fake_driver
from support.cuda.functions import function_of
from support.cuda.nvrtc import compile_source, needs_nvrtc
from support.cuda.toolkit import write_headers, write_nvcc
from support.networks import conv, relax_module
from tvm_ios.backend.cuda.code import toolchain
from tvm_ios.backend.cuda.kernels.copy import copy_kernel
from tvm_ios.backend.cuda.kernels.kernel import CudaKernel
from tvm_ios.backend.cuda.kernels.schedule import schedule
from tvm_ios.backend.cuda.measure import builder
from tvm_ios.backend.cuda.measure.builder import CudaKernelBuilder
from tvm_ios.ops.tensor import TensorSpec
from tvm_ios_env import nvidia

CROSS = {"kind": "cuda", "arch": "sm_90"}


def network() -> tvm.IRModule:
    return relax_module(lambda emit, x: emit(relax.op.nn.relu(emit(conv(x, 8)))), (1, 4, 9, 9))


def copies(count: int) -> list[CudaKernel]:
    """Different kernels."""
    return [copy_kernel(TensorSpec((8, 3 + i), "float32"), (1, 0), TARGET) for i in range(count)]


def largest(emit, x):
    return emit(relax.op.nn.max_pool2d(x, (3, 3), padding=1))


@pytest.fixture
def no_compiler(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A linker there is."""
    (tmp_path / "g++").symlink_to(shutil.which("g++"))
    monkeypatch.setitem(sys.modules, "cuda.bindings.nvrtc", None)
    monkeypatch.setenv("PATH", str(tmp_path))


def test_mathematics_is_exact() -> None:
    """TVM's own options make each of these an approximation, tanh one of three digits."""

    def body(emit, x, y):
        quotient = emit(relax.op.divide(emit(relax.op.exp(x)), emit(relax.op.sqrt(y))))
        return emit(relax.op.multiply(emit(relax.op.tanh(quotient)), emit(relax.op.log(y))))

    function = schedule(function_of(body, (64, 64), (64, 64)), TARGET)[0].function
    mod = tvm.IRModule({"main": function.with_attr("global_symbol", "main")})
    source = tvm.compile(mod, TARGET).mod.imports[0].inspect_source()
    ptx = compile_source(source, "ptx", "sm_90").decode()
    assert "div.rn.f32" in ptx
    assert "sqrt.rn.f32" in ptx
    for approximation in ("div.approx", "sqrt.approx", "tanh.approx", "lg2.approx", "div.full"):
        assert approximation not in ptx
    for operation in ("add", "mul", "fma.rn"):  # tiny numbers are not made zero
        assert f"{operation}.ftz" not in ptx


def test_nothing_of_it_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    needs_nvrtc()
    monkeypatch.setenv("TVM_CUDA_NVRTC_EXTRA_OPTS", "--fmad=false")
    monkeypatch.delenv("CUDA_PATH", raising=False)
    before = dict(os.environ)
    with toolchain.cuda_compiler():
        assert os.environ["TVM_CUDA_NVRTC_EXTRA_OPTS"].startswith("--fmad=false")
    assert dict(os.environ) == before


def test_threads_share_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first sets it up, and the last puts things back."""
    needs_nvrtc()
    monkeypatch.delenv("CUDA_PATH", raising=False)
    before, left = dict(os.environ), threading.Event()
    both = threading.Barrier(2)

    def first() -> None:
        with toolchain.cuda_compiler():
            both.wait(timeout=10)
        left.set()

    thread = threading.Thread(target=first)
    thread.start()
    with toolchain.cuda_compiler():
        both.wait(timeout=10)
        assert left.wait(timeout=10)
        within = dict(os.environ)
    thread.join()
    assert within.keys() - before.keys()
    assert dict(os.environ) == before


def test_kernels_are_compiled_in_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    needs_nvrtc()
    kernels = CudaKernelBuilder(TARGET)
    kernels.compile(copies(9))
    monkeypatch.setattr(builder, "build_kernels", None)  # whoever compiles once more fails
    assert all(kernels.library(kernel).names[kernel.key] for kernel in copies(9))


def test_what_one_thread_finds_wrong_ends_all(monkeypatch: pytest.MonkeyPatch) -> None:
    needs_nvrtc()
    monkeypatch.setenv("TVM_CUDA_NVRTC_EXTRA_OPTS", "--nonsense")
    before = dict(os.environ)
    with pytest.raises(tvm_ios.OptionError, match=r"unrecognized option --nonsense found\); look"):
        CudaKernelBuilder(TARGET).compile(copies(9))
    assert dict(os.environ) == before


def test_headers_that_are_left_out_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    function = schedule(function_of(largest, (1, 4, 9, 9)), TARGET)[0].function
    mod = tvm.IRModule({"main": function.with_attr("global_symbol", "main")})
    source = tvm.compile(mod, TARGET).mod.imports[0].inspect_source()
    lean = compile_source(source, "ptx", "sm_90").decode()
    traits = source + "static_assert(std::is_same<int, int>::value);\n"
    compile_source(traits, "ptx", "sm_90")  # which has them, if it uses them
    monkeypatch.setattr(toolchain, "lean_source", lambda source: source)
    whole = compile_source(source, "ptx", "sm_90").decode()
    assert lean.partition(".entry")[2] == whole.partition(".entry")[2]
    assert ".entry" in lean


def test_the_users_toolkit_is_taken(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    needs_nvrtc()
    write_headers(tmp_path)
    monkeypatch.setenv("CUDA_PATH", str(tmp_path))
    assert str(toolchain.find_toolchain()) == f"nvrtc, headers of {tmp_path}/include"
    with toolchain.cuda_compiler():
        assert os.environ["CUDA_PATH"] == str(tmp_path)


@pytest.mark.parametrize(
    ("include", "library"),
    [("include", ""), ("include", "cccl"), ("targets/{}-linux/include", "cccl")],
)
def test_nvrtc_finds_the_headers_that_are_found(
    include: str, library: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The headers lie in the folders of a toolkit."""
    needs_nvrtc()
    real = toolchain.find_toolchain().headers
    assert real is not None
    mine = tmp_path / include.format(platform.machine())
    link_all(real, mine, but="cccl")
    link_all(real / "cccl", mine / library)
    monkeypatch.setenv("CUDA_PATH", str(tmp_path))
    assert toolchain.find_toolchain().headers == mine
    assert compile_source('extern "C" __global__ void nothing() {}', "ptx", "sm_90")


def link_all(source: Path, folder: Path, but: str = "") -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for path in source.iterdir():
        if path.name != but and not (folder / path.name).exists():
            (folder / path.name).symlink_to(path)


def test_a_toolkit_without_headers_is_missed_first(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    needs_nvrtc()
    monkeypatch.delenv("TVM_CUDA_COMPILE_MODE", raising=False)
    monkeypatch.setenv("PATH", str(write_nvcc(tmp_path).parent), prepend=os.pathsep)
    monkeypatch.setenv("CUDA_PATH", str(tmp_path))
    with pytest.raises(tvm_ios.OptionError, match=f"h CUDA_PATH={tmp_path} does not have in inc"):
        tvm_ios.compile("no such file.onnx", target=CROSS, search=False)
    monkeypatch.setenv("TVM_CUDA_COMPILE_MODE", "nvcc")
    assert toolchain.find_toolchain().name == "nvcc"


@pytest.fixture
def no_headers(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """NVRTC has none, but nvcc is there, and nothing has been told yet."""
    needs_nvrtc()
    for name in ("CUDA_PATH", "TVM_CUDA_COMPILE_MODE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", str(write_nvcc(tmp_path / "bin").parent), prepend=os.pathsep)
    monkeypatch.setattr(nvidia, "nvidia_directories", list)
    monkeypatch.setattr(toolchain, "_told", threading.Lock())


def test_nvcc_in_place_of_nvrtc_is_told_once(
    no_headers: None, caplog: pytest.LogCaptureFixture
) -> None:
    together = threading.Barrier(4)

    def find(_: int) -> str:
        together.wait(timeout=10)
        return toolchain.find_toolchain().name

    with ThreadPoolExecutor(4) as pool:
        assert set(pool.map(find, range(4))) == {"nvcc"}
    (record,) = caplog.records
    assert (record.name, record.levelname) == (toolchain.__name__, "WARNING")
    assert record.getMessage() == (
        "NVRTC lacks CUDA's headers (cuda_runtime.h and cuda/std/cstdint), so nvcc compiles the "
        "kernels, which takes about three times as long; run: pip install 'tvm-ios[cuda]'."
    )


def test_nvcc_that_is_wanted_is_not_told_of(
    no_headers: None, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("TVM_CUDA_COMPILE_MODE", "nvcc")
    assert toolchain.find_toolchain().name == "nvcc"
    monkeypatch.delenv("TVM_CUDA_COMPILE_MODE")
    monkeypatch.setitem(sys.modules, "cuda.bindings.nvrtc", None)
    assert toolchain.find_toolchain().name == "nvcc"
    assert not caplog.records


def test_nvrtc_that_is_wanted_needs_headers(
    no_headers: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TVM_CUDA_COMPILE_MODE", "nvrtc")
    with pytest.raises(tvm_ios.OptionError, match="or its headers are not installed; run pip"):
        toolchain.find_toolchain()


COMPILE = """
import sys
from tvm_ios_env import nvidia
nvidia.nvidia_directories = list
from tvm_ios.cli.main import main
sys.exit(main())
"""


@pytest.mark.slow
def test_the_command_line_tells_once_of_nvcc(no_headers: None, tmp_path: Path) -> None:
    arguments = ["compile", "zoo:randwire_tiny", "--no-search", "-o", str(tmp_path / "model.so")]
    target = '{"kind": "cuda", "arch": "sm_90"}'
    done = subprocess.run(
        [sys.executable, "-c", COMPILE, *arguments, "--target", target],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stderr == f"{nvidia.SLOWER}\n"


def test_a_toolkit_without_nvrtc(
    no_compiler: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    write_nvcc(tmp_path)
    monkeypatch.delenv("TVM_CUDA_COMPILE_MODE", raising=False)
    assert str(toolchain.find_toolchain()) == "nvcc"
    with toolchain.cuda_compiler():
        assert os.environ["TVM_CUDA_COMPILE_MODE"] == "nvcc"
        assert os.environ["TVM_CUDA_NVCC_NO_FAST_MATH"] == "1"
    assert "TVM_CUDA_COMPILE_MODE" not in os.environ


def test_no_compiler_is_missed_first(no_compiler: None) -> None:
    with pytest.raises(tvm_ios.OptionError, match=r"pip install 'tvm-ios\[cuda\]'"):
        tvm_ios.compile("no such file.onnx", target=CROSS, search=False)
    with pytest.raises(tvm_ios.OptionError, match="CUDA's compiler"):
        tvm_ios.transform.InterOperatorSchedule(TARGET, search=False)(network())


def test_an_architecture_that_it_does_not_know() -> None:
    needs_nvrtc()
    with pytest.raises(tvm_ios.TargetError, match="not sm_140"):
        tvm_ios.compile("no such file.onnx", target={**CROSS, "arch": "sm_140"}, search=False)


LOAD = """
import sys
import numpy, tvm_ios_runtime
model = tvm_ios_runtime.load(sys.argv[1])
print(model.inputs[0])
"""


@pytest.mark.slow
def test_a_library_from_a_machine_without_gpu(fake_driver: Path, tmp_path: Path) -> None:
    """It holds machine code, which its loader need not compile."""
    needs_nvrtc()
    path = tmp_path / "model.so"
    command = [sys.executable, "-m", "tvm_ios", "compile", "zoo:randwire_tiny", "--no-search"]
    target = '{"kind": "cuda", "arch": "sm_90"}'
    subprocess.run([*command, "--target", target, "-o", str(path)], check=True)
    library = path.read_bytes()
    assert library.count(b"\x7fELF") == 2  # the library's, and the kernels'
    assert b"__global__" not in library
    done = subprocess.run(
        [sys.executable, "-c", LOAD, str(path)],
        env=with_fake_driver(fake_driver), capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert "float32[1, 3" in done.stdout, done.stderr
