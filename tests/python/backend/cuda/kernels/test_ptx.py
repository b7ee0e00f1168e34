# SPDX-License-Identifier: Apache-2.0
"""Every rule for CUDA through CUDA's own compiler, which needs no GPU."""

from __future__ import annotations

import re
import struct

import pytest
import tvm
from tvm import relax

from support.cuda.fake_driver import TARGET
from support.cuda.functions import conv_relu, function_of
from support.cuda.nvrtc import compile_source
from support.cuda.windows import WINDOWS
from tvm_ios.backend.cuda.kernels.schedule import ScheduledFunction, schedule, schedule_sum
from tvm_ios.backend.cuda.target import limits_of

REGISTERS, FRAME = 0x2F, 0x11  # of NVIDIA's attributes; a frame is what lies in memory
PRECISIONS = {"fp32": "float32", "tf32": "float32", "fp16": "float16", "bf16": "bfloat16"}


@pytest.fixture(scope="module")
def source() -> str:
    """The rules' first choices for some operators, and the last ones of those that need most.

    Of matrix products a choice with one slot of shared memory and one with several.
    """
    functions: dict[str, ScheduledFunction] = {}
    shapes = ((1, 28, 28, 64), (3, 3, 64, 96), (1, 1, 1, 96))
    for precision, dtype in PRECISIONS.items():
        operator = function_of(conv_relu(padding=1), *shapes, dtype=dtype)
        found = [c for c in schedule(operator, TARGET, precision) if c.name.startswith("gemm")]
        functions[precision] = next(c for c in found if "*" not in c.name)
        functions[f"{precision}_pipeline"] = next(c for c in found if "*" in c.name)
        if dtype == "float32":
            functions[f"{precision}_last"] = found[-1]
        functions[f"{precision}_sum"] = _sum(operator, dtype, precision)
    for name in ("max", "depthwise"):
        body, *sizes = WINDOWS[name]
        functions[name] = schedule(function_of(body, *sizes), TARGET)[0]
    mod = {name: s.function.with_attr("global_symbol", name) for name, s in functions.items()}
    return tvm.compile(tvm.IRModule(mod), TARGET).mod.imports[0].inspect_source()


def _sum(operator: tvm.tirx.PrimFunc, dtype: str, precision: str) -> ScheduledFunction:
    """The operator, with the convolution of another image added in front of its bias."""
    shapes = ((1, 28, 28, 20), (1, 1, 20, 96))
    layouts = {"data_layout": "NHWC", "kernel_layout": "HWIO"}
    other = function_of(
        lambda emit, x, w: emit(relax.op.nn.conv2d(x, w, **layouts)), *shapes, dtype=dtype
    )
    return schedule_sum(
        [operator, other], [(0, 1, 2), (3, 4)], TARGET, precision, limits_of(TARGET)
    )


def _attributes(code: bytes, wanted: int) -> list[int]:
    """An attribute of each kernel, from the section of machine code that has the attributes.

    That is a list of (format, attribute, value); format 4 has the length of a longer value, which
    here is the kernel's symbol and a number.
    """
    offset, size, count, names = struct.unpack_from("<Q10xHHH", code, 40)
    headers = [struct.unpack_from("<IIQQQQ", code, offset + size * i) for i in range(count)]
    values = []
    for name, _, _, _, at, length in headers:
        start = headers[names][4] + name
        if code[start : code.index(b"\0", start)] != b".nv.info":
            continue
        end = at + length
        while at < end:
            form, attribute, value = struct.unpack_from("<BBH", code, at)
            if attribute == wanted:
                values.append(struct.unpack_from("<I", code, at + 8)[0])
            at += 4 + (value if form == 4 else 0)
    return values


@pytest.mark.parametrize("architecture", [pytest.param("sm_80", marks=pytest.mark.slow), "sm_90"])
def test_every_rule_is_compiled(source: str, architecture: str) -> None:
    ptx = compile_source(source, "ptx", architecture).decode()
    kernels = re.findall(r"\.entry (\w+)\(", ptx)
    pipelines = {f"{precision}_pipeline" for precision in PRECISIONS}
    sums = {f"{precision}_sum" for precision in PRECISIONS}
    expected = {*PRECISIONS, *pipelines, *sums, "fp32_last", "tf32_last", "max", "depthwise"}
    assert set(kernels) == {f"{name}_kernel" for name in expected}
    for instruction in ("m16n8k8.row.col.f32.tf32", "m16n8k16.row.col.f32.f16", "f32.bf16"):
        assert instruction in ptx
    assert ".local" not in ptx  # arrays that are no registers
    bodies = dict(zip(kernels, ptx.split(".entry ")[1:], strict=True))
    for name in pipelines:
        body = bodies[f"{name}_kernel"]
        assert "cp.async.cg.shared.global" in body, name
        assert "cp.async.wait_group" in body, name


def test_a_pipeline_has_one_barrier_a_step(source: str) -> None:
    """TVM would add one between two slots, which it takes for one, and teams need two."""
    texts = source.split('extern "C" __global__')
    for name in PRECISIONS:
        mine = f" {name}_pipeline_kernel("
        (kernel,) = [text for text in texts if mine in text and "tvm_ios_commit_copies();" in text]
        assert kernel.count("tvm_ios_await_copies") == 1
        assert kernel.count("__syncthreads()") in (1, 3), kernel


def test_fragments_have_room(source: str) -> None:
    """TVM shrinks buffers to what it sees used, and does not see into functions of CUDA C."""
    kernels = source.split('extern "C" __global__')[1:]
    seen = 0
    for kernel in kernels:
        for name in set(re.findall(r"tvm_ios_(?:ldmatrix|mma)\w*\(\(&\((\w+)\[", kernel)):
            found = re.search(rf"alignas\(64\) (\w+) {name}\[(\d+)\];", kernel)
            assert found is not None, name
            size = 4 if found[1] == "float" else 2
            assert int(found[2]) * size >= 16, found[0]
            seen += 1
    assert seen >= 6 * (len(PRECISIONS) - 1)


def test_sums_stay_in_registers(source: str) -> None:
    code = compile_source(source, "cubin", "sm_90")
    registers, frames = _attributes(code, REGISTERS), _attributes(code, FRAME)
    assert len(registers) == len(frames) == 3 * len(PRECISIONS) + 4
    assert all(0 < count <= 168 for count in registers), registers
    assert not any(frames), frames
