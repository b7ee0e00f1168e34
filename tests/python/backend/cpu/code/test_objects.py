# SPDX-License-Identifier: Apache-2.0
"""What is known of a kernel from an earlier time, without building its code."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import tvm
from tvm import relax, tirx
from tvm.script.ir_builder import IRBuilder
from tvm.tirx.script import builder as T

from support.networks import (
    NATIVE,
    add_function,
    assert_close,
    compile_plain,
    constant,
    isa_of,
    run_vm,
)
from tvm_ios.backend.cpu.code import objects
from tvm_ios.backend.cpu.code.functions import KernelFunctions, build_drivers
from tvm_ios.backend.cpu.kernels.kernel import Kernel
from tvm_ios.backend.cpu.kernels.maps.channel_norm import ChannelNorm, channel_norm_kernel
from tvm_ios.relax_ir.constants import constant_array
from tvm_ios.support.object_store import ObjectStore
from tvm_ios.transform import InterOperatorSchedule


def kernel(channels: int = 20) -> Kernel:
    core, layout = isa_of(NATIVE)
    return channel_norm_kernel(ChannelNorm(1, channels, 9, 1e-5), layout, core)


def known(store: ObjectStore, kernel: Kernel) -> objects.KernelObject:
    return objects.kernel_object(kernel, 0, NATIVE, store)


def compiled(store: ObjectStore, kernel: Kernel) -> objects.KernelObject:
    functions = KernelFunctions(NATIVE, store=store)
    symbol = functions.get(kernel, 0)
    build_drivers({}, functions)
    return functions.objects[symbol]


def test_a_kernel_that_was_compiled_is_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = ObjectStore(tmp_path)
    first = compiled(store, kernel())
    assert first.unknown

    def fail(*_: object) -> None:
        raise AssertionError("it is built again")

    monkeypatch.setattr(objects, "pointer_function", fail)
    again = known(store, kernel())
    assert (again.symbol, again.key) == (first.symbol, first.key)
    assert again.accessed == first.accessed
    assert first.accessed.read == {0, 1, 2}
    assert first.accessed.written == {3}
    assert not again.unknown


def test_the_object_has_the_symbol(tmp_path: Path) -> None:
    """Also where an equal kernel had another name when it was compiled."""
    store, named = ObjectStore(tmp_path), replace(kernel(), name="another_name")
    assert named.key == kernel().key
    for one in (kernel(), named, kernel()):
        found = compiled(store, one)
        assert one.name in found.symbol
        assert found.symbol.encode() in (store.get(found.key) or b"")


def test_builds_of_the_compiler_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """A version does not tell a nightly build from another."""
    found = []
    for build in ("one", "other"):
        monkeypatch.setattr(objects, "builds_of", lambda names, build=build: [names[0], build])
        objects._compiler.cache_clear()
        found.append(known(ObjectStore(None), kernel()).key)
    objects._compiler.cache_clear()
    assert found[0] != found[1]


@pytest.mark.parametrize("what", ["kernel", "target", "code", "compiler"])
def test_what_decides_the_code_is_told_apart(
    what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = ObjectStore(tmp_path)
    first = compiled(store, kernel())
    other, target = kernel(), NATIVE
    if what == "kernel":
        other = kernel(21)
    elif what == "target":
        target = type(NATIVE)({"kind": "llvm", "mcpu": "x86-64-v3"})
    elif what == "code":
        monkeypatch.setattr(objects, "code_digest", lambda: "of other code")
    else:
        monkeypatch.setattr(objects, "_compiler", lambda: "another one")
    found = objects.kernel_object(other, 0, target, store)
    assert found.unknown not in ("", first.unknown)


def test_without_the_object_code_it_is_compiled_again(tmp_path: Path) -> None:
    store = ObjectStore(tmp_path)
    first = compiled(store, kernel())
    (tmp_path / first.key[:2] / f"{first.key[2:]}.object").unlink()
    assert compiled(store, kernel()).key == first.key
    assert store.get(first.key) is not None


def test_a_store_that_keeps_nothing(tmp_path: Path) -> None:
    first = compiled(ObjectStore(None), kernel())
    assert first.symbol == compiled(ObjectStore(tmp_path), kernel()).symbol


def test_a_process_looks_for_how_much_there_is_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not with each network that it compiles: a store may have thousands of files."""
    monkeypatch.setenv("TVM_IOS_OBJECTS", str(tmp_path))
    looks = []
    monkeypatch.setattr(ObjectStore, "_files", lambda store: looks.append(store) or iter(()))
    for channels in (20, 24):
        functions = KernelFunctions(NATIVE)
        functions.get(kernel(channels), 0)
        build_drivers({}, functions)
    assert len(looks) == 1


def nothing(name: str) -> tirx.PrimFunc:
    """A function that does nothing."""
    with IRBuilder() as builder, T.prim_func(s_tir=True):
        T.func_name(name)
        T.evaluate(tirx.const(0, "int32"))
    return builder.get()


def test_drivers_that_were_compiled_are_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernels = KernelFunctions(NATIVE, store=ObjectStore(tmp_path))
    first = build_drivers({"begin": nothing("begin")}, kernels)

    def fail(*_: object, **__: object) -> None:
        raise AssertionError("it is compiled again")

    with monkeypatch.context() as patched:
        patched.setattr(objects.tvm, "compile", fail)
        again = build_drivers({"begin": nothing("begin")}, kernels)
        with pytest.raises(AssertionError, match="compiled again"):
            build_drivers({"start": nothing("start")}, kernels)
    for module in (first, again):
        assert module.implements_function("begin")
        tvm.runtime.Executable(module).jit()["begin"]()


def test_two_functions_of_a_module_have_equal_constants() -> None:
    """Each is scheduled alone, and brings its own."""
    builder = relax.BlockBuilder()

    def body(emit, x):
        return emit(relax.op.matmul(x, constant(12, 20)))

    for name, op in (("f", relax.op.nn.relu), ("g", relax.op.tanh)):
        add_function(builder, name, lambda emit, x, op=op: emit(op(body(emit, x))), (3, 12))
    mod = builder.get()
    for name in ("f", "g"):
        mod = InterOperatorSchedule(NATIVE, function=name, search=False)(mod)
    executable, x = compile_plain(mod), np.ones((3, 12), "float32")
    weights = constant_array(constant(12, 20))
    (f,), (g,) = (run_vm(executable, [x], name) for name in ("f", "g"))
    assert_close(f, np.maximum(x @ weights, 0))
    assert_close(g, np.tanh(x @ weights))
