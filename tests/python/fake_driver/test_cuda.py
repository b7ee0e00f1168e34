# SPDX-License-Identifier: Apache-2.0
"""What the fake driver notices in kernels, and its tensor cores."""

from __future__ import annotations

import ctypes
import re

import numpy as np
import pytest

from support.cuda.fake_driver import Emulated, EmulationError
from support.cuda.ptx import UnknownAssembly, replace_assembly
from support.cuda.run import run_source
from support.networks import assert_close


def kernel(body: str, *types: str, prelude: str = "") -> str:
    """The source of a kernel ``k`` of pointers ``p0``, ``p1`` and so on."""
    parameters = ", ".join(f"{dtype}* __restrict__ p{i}" for i, dtype in enumerate(types))
    signature = f'extern "C" __global__ void __launch_bounds__(128) k({parameters})'
    return f"{prelude}\n{signature} {{\n{body}\n}}\n"


def failure(emulated: Emulated, *arguments: object) -> str:
    """What the driver says of a launch that goes wrong."""
    with pytest.raises(EmulationError) as error:
        emulated.call(run_source, *arguments)
    found = re.search(r"RuntimeError: k: (.*)", str(error.value))
    assert found is not None, error.value
    return found[1]


NUMBERS = np.arange(128, dtype="float32")


def test_a_barrier_that_some_do_not_reach(emulated: Emulated) -> None:
    one = kernel("if (threadIdx.x < 40) __syncthreads();\n__syncthreads();", "float")
    assert failure(emulated, one, [NUMBERS], 1, 64) == (
        "block (0, 0, 0): threads diverge: thread 0 waits at the barrier in line 3 of its source, "
        "thread 40 waits at the barrier in line 4 of its source"
    )


def test_threads_that_have_ended_are_not_waited_for(emulated: Emulated) -> None:
    source = kernel(
        "__shared__ float s[64];\nif (threadIdx.x >= 40) return;\n"
        "s[threadIdx.x] = threadIdx.x;\n__syncthreads();\np0[threadIdx.x] = s[39 - threadIdx.x];",
        "float",
    )
    (actual,) = emulated.call(run_source, source, [NUMBERS], 1, 64)
    np.testing.assert_array_equal(actual[:40], NUMBERS[39::-1])


def test_a_shuffle_without_a_lane_that_it_names(emulated: Emulated) -> None:
    source = kernel(
        "if (threadIdx.x == 3) __syncthreads();\n"
        "p0[threadIdx.x] = __shfl_sync(0xffffffff, p0[threadIdx.x], 0, 32);",
        "float",
    )
    assert "waits for its warp in line 4" in failure(emulated, source, [NUMBERS], 1, 32)


def test_lanes_that_are_active_together(emulated: Emulated) -> None:
    source = kernel(
        "if (threadIdx.x < 5) p0[threadIdx.x] = __popc(__activemask());\n"
        "else p0[threadIdx.x] = __popc(__activemask());",
        "float",
    )
    (actual,) = emulated.call(run_source, source, [NUMBERS], 1, 32)
    np.testing.assert_array_equal(actual[:32], [5] * 5 + [27] * 27)


def test_a_barrier_that_is_missing_shows_in_another_order(emulated: Emulated) -> None:
    body = "__shared__ float s[128];\ns[threadIdx.x] = p0[threadIdx.x];\n{}\n"
    body += "p0[threadIdx.x] = s[threadIdx.x / 32 * 32];\nif (threadIdx.x > 999) __syncthreads();"
    right, wrong = (kernel(body.format(b), "float") for b in ("__syncthreads();", ""))
    expected = NUMBERS // 32 * 32
    for order in ("issued", "reverse", "1"):
        (actual,) = emulated.call(run_source, right, [NUMBERS], 1, 128, 0, order)
        np.testing.assert_array_equal(actual, expected)
    (actual,) = emulated.call(run_source, wrong, [NUMBERS], 1, 128, 0, "reverse")
    assert np.isnan(actual).any()


def test_beyond_the_dynamic_shared_memory(emulated: Emulated) -> None:
    body = "extern __shared__ __align__(64) unsigned char s[];\n((float*)s)[threadIdx.x] = p0[0];"
    body = body.replace("unsigned char", "uchar")
    source = kernel(body, "float", prelude="#define uchar unsigned char")
    emulated.call(run_source, source, [NUMBERS], 1, 32, 128)
    said = failure(emulated, source, [NUMBERS], 1, 33, 128)
    assert said.endswith("thread (32, 0, 0) reaches beyond the dynamic shared memory")


def test_beyond_a_tensor(emulated: Emulated) -> None:
    source = kernel("p0[threadIdx.x * 128] = 0;", "float")
    said = failure(emulated, source, [NUMBERS])
    assert "thread (1, 0, 0) reads or writes where there is no memory" in said


def test_more_than_a_device_has(emulated: Emulated) -> None:
    source = kernel("p0[0] = 1;", "float")
    assert failure(emulated, source, [NUMBERS], 1, 1025) == "too many threads"
    large = kernel("__shared__ float s[12289];\np0[0] = s[threadIdx.x];", "float")
    assert failure(emulated, large, [NUMBERS]) == "too much static shared memory"


WMMA = """
using namespace nvcuda::wmma;
fragment<matrix_a, 16, 16, {k}, {t}, row_major> a;
fragment<matrix_b, 16, 16, {k}, {t}, col_major> b;
fragment<accumulator, 16, 16, {k}, {c}> c;
fill_fragment(c, 1.0f);
load_matrix_sync(a, p0, {k});
load_matrix_sync(b, p1, {k});
mma_sync(c, a, b, c);
store_matrix_sync(p2, c, 16, mem_row_major);
"""
CASES = {
    "half": ("half", "half", "float", "float16", "float32", 16),
    "half in half": ("half", "half", "half", "float16", "float16", 16),
    "bfloat16": ("nv_bfloat16", "nv_bfloat16", "float", "bfloat16", "float32", 16),
    "tf32": ("precision::tf32", "float", "float", "float32", "float32", 8),
}


@pytest.mark.parametrize("case", CASES)
def test_matrices_of_a_warp(emulated: Emulated, case: str) -> None:
    element, memory, accumulator, dtype, result, k = CASES[case]
    source = kernel(
        WMMA.format(k=k, t=element, c=accumulator), memory, memory, accumulator,
        prelude="#include <cuda_fp16.h>\n#include <cuda_bf16.h>\n#include <mma.h>\n",
    )  # fmt: skip
    random = np.random.default_rng(0)
    a, b = (random.standard_normal((16, k)).astype(dtype) for _ in range(2))
    c = np.zeros((16, 16), result)
    _, _, actual = emulated.call(run_source, source, [a, b, c])
    x, y = (as_multiplied(v, case == "tf32") for v in (a, b))
    assert_close(actual, (x @ y.T + 1).astype(result), 1e-6 if result == "float32" else 1e-3)


def as_multiplied(x: np.ndarray, tf32: bool) -> np.ndarray:
    x = x.astype("float32")
    return (x.view("uint32") & np.uint32(0xFFFFE000)).view("float32") if tf32 else x


TRANSPOSED = """
__shared__ alignas(64) half s[64];
s[threadIdx.x * 2] = p0[threadIdx.x * 2];
s[threadIdx.x * 2 + 1] = p0[threadIdx.x * 2 + 1];
__syncthreads();
unsigned int addr = __cvta_generic_to_shared(&(s[threadIdx.x % 8 * 8]));
asm volatile("ldmatrix.sync.aligned.m8n8.x1.trans.shared.b16" "{%0}, [%1];\\n"
  : "=r"(((unsigned *)(p1 + threadIdx.x * 2))[0]) : "r"(addr));
"""


def test_a_matrix_is_transposed_on_its_way(emulated: Emulated) -> None:
    x = np.arange(64, dtype="float16").reshape(8, 8)
    source = kernel(TRANSPOSED, "half", "half", prelude="#include <cuda_fp16.h>")
    _, actual = emulated.call(run_source, source, [x, np.zeros_like(x)])
    np.testing.assert_array_equal(actual, x.T)


TF32 = """
const int g = threadIdx.x / 4, t = threadIdx.x % 4;
float d[4];
asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32"
  "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%10, %10, %10, %10};\\n"
  : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])
  : "r"(__float_as_uint(p0[g * 8 + t])), "r"(__float_as_uint(p0[(g + 8) * 8 + t])),
    "r"(__float_as_uint(p0[g * 8 + t + 4])), "r"(__float_as_uint(p0[(g + 8) * 8 + t + 4])),
    "r"(__float_as_uint(p1[t * 8 + g])), "r"(__float_as_uint(p1[(t + 4) * 8 + g])), "f"(0.0f));
for (int i = 0; i < 4; ++i) p2[(g + i / 2 * 8) * 8 + t * 2 + i % 2] = d[i];
"""


def test_registers_of_tf32(emulated: Emulated) -> None:
    random = np.random.default_rng(0)
    a, b = (random.standard_normal(shape).astype("float32") for shape in ((16, 8), (8, 8)))
    c = np.zeros((16, 8), "float32")
    *_, actual = emulated.call(run_source, kernel(TF32, "float", "float", "float"), [a, b, c])
    assert_close(actual, as_multiplied(a, True) @ as_multiplied(b, True), 1e-6)


ROUNDED = """
__device__ __forceinline__ float nearest(float x) {
  unsigned y;
  asm volatile("cvt.rna.tf32.f32 %0, %1;" : "=r"(y) : "f"(x));
  return __shfl_sync(0xffffffff, __uint_as_float(y), threadIdx.x, 32);
}
"""


def test_a_function_that_a_kernel_calls(emulated: Emulated) -> None:
    x = np.random.default_rng(0).standard_normal(32).astype("float32")
    source = kernel("p0[threadIdx.x] = nearest(p0[threadIdx.x]);", "float", prelude=ROUNDED)
    (actual,) = emulated.call(run_source, source, [x])
    np.testing.assert_array_equal(actual, as_multiplied(actual, True))
    np.testing.assert_allclose(actual, x, rtol=2.0**-11)


LATE = """
__shared__ alignas(64) float s[32];
asm volatile("cp.async.ca.shared.global [%0], [%1], %2;"
  :: "r"(__cvta_generic_to_shared(&s[threadIdx.x])), "l"(p0 + threadIdx.x), "n"(4));
asm volatile("cp.async.commit_group;" : : );
WAIT
p1[threadIdx.x] = s[threadIdx.x];
"""


def test_copies_that_are_not_waited_for(emulated: Emulated) -> None:
    zeros = np.zeros(32, "float32")
    late = kernel(LATE.replace("WAIT", ""), "float", "float")
    _, actual = emulated.call(run_source, late, [NUMBERS, zeros])
    assert np.isnan(actual).all()
    wait = 'asm volatile("cp.async.wait_group 0;" :  :  : "memory");'
    right = kernel(LATE.replace("WAIT", wait), "float", "float")
    _, actual = emulated.call(run_source, right, [NUMBERS, zeros])
    np.testing.assert_array_equal(actual, NUMBERS[:32])


def test_assembly_that_is_not_known() -> None:
    with pytest.raises(UnknownAssembly, match=r"no function for: mov\.u32 %0, %%smid"):
        replace_assembly('int x; asm volatile("mov.u32 %0, %%smid;" : "=r"(x) :);')


def allocate(sizes: list[int]) -> list[int]:
    """What the driver answers to each request for memory; all is freed in the end."""
    driver, results, held = ctypes.CDLL("libcuda.so.1"), [], []
    context = ctypes.c_void_p()
    driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0)
    driver.cuCtxPushCurrent_v2(context)
    for size in sizes:
        memory = ctypes.c_void_p()
        results.append(driver.cuMemAlloc_v2(ctypes.byref(memory), ctypes.c_size_t(size)))
        held += [memory] if results[-1] == 0 else []
    for memory in held:
        driver.cuMemFree_v2(memory)
    driver.cuCtxPopCurrent_v2(ctypes.byref(context))
    return results


def test_memory_has_an_end(emulated: Emulated) -> None:
    whole = 16 << 30
    assert emulated.call(allocate, [whole + 1, 1000, whole - 999, 1000]) == [2, 0, 2, 0]
