# SPDX-License-Identifier: Apache-2.0
"""No two tensors of one stage share memory once TVM has planned it."""

from __future__ import annotations

import pytest
import tvm
from tvm import relax
from tvm.script import ir as I
from tvm.script import relax as R
from tvm.script import tirx as T

from support import NATIVE, constant, conv, few_stages, many_stages, merging, relax_module
from tvm_ios import zoo
from tvm_ios.transform import InterOperatorSchedule

op = relax.op


def planned(mod: tvm.IRModule) -> relax.Function:
    """The main function after memory planning, by the passes of TVM's CPU pipeline."""
    passes = [
        relax.transform.LegalizeOps(),
        relax.transform.RewriteDataflowReshape(),
        relax.transform.ToNonDataflow(),
        relax.transform.RemovePurityChecking(),
        relax.transform.CallTIRRewrite(),
        relax.transform.StaticPlanBlockMemory(),
    ]
    with NATIVE:
        return tvm.transform.Sequential(passes)(mod)["main"]


def stage_tensors(func: relax.Function) -> list[list[object]]:
    """Per call of a stage the storage of each of its tensors.

    A tensor that is no part of a planned storage stands for itself: an input of the function, a
    constant, or a tensor allocated on its own.
    """
    storage: dict[relax.Var, object] = {}
    calls = []
    for block in func.body.blocks:
        for binding in block.bindings:
            value = binding.value
            if isinstance(value, relax.Var):
                storage[binding.var] = storage.get(value, value)
            if not isinstance(value, relax.Call):
                continue
            if isinstance(value.op, tvm.ir.Op) and value.op.name == "relax.memory.alloc_tensor":
                storage[binding.var] = value.args[0]
            elif isinstance(value.op, tvm.ir.GlobalVar) and value.op.name_hint.startswith("stage"):
                calls.append([storage.get(a, a) for a in value.args])
    return calls


def assert_disjoint(func: relax.Function) -> int:
    """No stage is given the same storage twice; returns how many tensors were looked at."""
    calls = stage_tensors(func)
    for tensors in calls:
        for i, tensor in enumerate(tensors):
            assert not any(tensor.same_as(other) for other in tensors[:i]), "memory is shared"
    return sum(map(len, calls))


def planned_storages(func: relax.Function) -> tuple[int, int]:
    """How many storages and how many tensors in them were planned."""
    text = func.script()
    return text.count("R.memory.alloc_storage("), text.count("R.memory.alloc_tensor(")


def chain_and_branches() -> tvm.IRModule:
    """Branches whose intermediates have equal sizes: tempting for a planner that reuses memory."""

    def body(emit, x):
        x = emit(op.nn.max_pool2d(x, (3, 3), padding=1))
        for depth in range(3):
            branches = []
            for i in range(3):
                value = emit(op.nn.relu(emit(conv(x, 20, 1, seed=3 * depth + i))))
                branches.append(emit(op.nn.avg_pool2d(value, (3, 3), padding=1)))
            x = emit(op.concat(branches, axis=1))
        return emit(op.nn.softmax(x, axis=1))

    return relax_module(body, (1, 20, 8, 8))


@pytest.mark.parametrize("cost_model", [few_stages, many_stages, merging])
def test_the_tensors_of_a_stage_never_share_memory(cost_model) -> None:
    mod = InterOperatorSchedule(NATIVE, cost_model=cost_model)(chain_and_branches())
    assert assert_disjoint(planned(mod)) > 20


def test_stages_do_share_memory_with_each_other() -> None:
    """Else the test above would say nothing."""
    mod = InterOperatorSchedule(NATIVE, cost_model=many_stages)(chain_and_branches())
    storages, tensors = planned_storages(planned(mod))
    assert 0 < storages < tensors


@pytest.mark.parametrize("cost_model", [few_stages, many_stages, merging])
def test_a_whole_network(cost_model) -> None:
    network = zoo.load("inception_v3_small", image_size=75)
    mod = InterOperatorSchedule(NATIVE, cost_model=cost_model)(network)
    assert assert_disjoint(planned(mod)) > 100


@I.ir_module
class Shared:
    """A stage whose two results were given one storage."""

    @T.prim_func(private=True, s_tir=True)
    def stage(
        x: T.Buffer((T.int64(4), T.int64(4)), "float32"),
        y: T.Buffer((T.int64(4), T.int64(4)), "float32"),
        z: T.Buffer((T.int64(4), T.int64(4)), "float32"),
    ):
        T.evaluate(0)

    @R.function(pure=False)
    def main(x: R.Tensor((4, 4), "float32")) -> R.Tensor((4, 4), "float32"):
        cls = Shared
        storage = R.memory.alloc_storage(
            R.shape([64]), R.prim_value(0), R.str("global"), R.dtype("float32")
        )
        y = R.memory.alloc_tensor(storage, R.prim_value(0), R.shape([4, 4]), R.dtype("float32"))
        z = R.memory.alloc_tensor(storage, R.prim_value(0), R.shape([4, 4]), R.dtype("float32"))
        _ = cls.stage(x, y, z)
        return y


def test_shared_memory_would_be_found() -> None:
    with pytest.raises(AssertionError, match="memory is shared"):
        assert_disjoint(Shared["main"])


def test_branches_emitted_as_bindings_do_share_memory() -> None:
    """Why a stage is one call: TVM reuses memory between the branches of a plain network."""

    def body(emit, x):
        left = emit(op.exp(emit(op.nn.softmax(x, axis=1))))
        right = emit(op.exp(emit(op.nn.softmax(emit(op.negative(x)), axis=1))))
        return emit(op.add(left, emit(op.multiply(right, constant(20, 8, 8)))))

    storages, tensors = planned_storages(planned(relax_module(body, (1, 20, 8, 8))))
    assert storages < tensors
