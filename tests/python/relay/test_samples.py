# SPDX-License-Identifier: Apache-2.0
"""Models that TVM v0.19 saved give what they gave then."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest
import tvm

from support.networks import NATIVE, assert_close, check_scheduled, compile_plain, run_vm
from support.relay.samples import check_outputs, parameters, save_weights
from support.relay.text import NAMES, NAMES_IN_JSON, SAMPLES
from tvm_ios import relay
from tvm_ios.transform import InterOperatorSchedule

# Inception-v3 takes TVM's own kernels half a minute; scheduled it is compared, too.
LARGE = ("inception_v3", "resnet18", "squeezenet")
QUICK = [name for name in NAMES if name != "inception_v3"]


@cache
def _loaded(name: str) -> tvm.IRModule:
    return relay.load(SAMPLES / f"{name}.relay", parameters(name)[1])


def _check(name: str, executable: tvm.runtime.Executable) -> None:
    check_outputs(name, run_vm(executable, parameters(name)[0]))


@pytest.mark.parametrize("name", QUICK)
def test_a_sample_gives_what_it_gave(name: str) -> None:
    _check(name, tvm.compile(_loaded(name), "llvm"))


@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=pytest.mark.slow if n in LARGE else ()) for n in NAMES],
)
def test_a_sample_gives_the_same_when_scheduled(name: str) -> None:
    scheduled = InterOperatorSchedule(NATIVE, search=False)(_loaded(name))
    _check(name, compile_plain(scheduled))


def test_a_sample_gives_the_same_when_its_schedule_was_searched() -> None:
    scheduling = InterOperatorSchedule(NATIVE, max_num_groups=2, max_group_size=2)
    _check("functions", compile_plain(scheduling(_loaded("functions"))))
    assert scheduling.schedule.measurements > 0


@pytest.mark.parametrize("name", NAMES_IN_JSON)
def test_both_forms_say_the_same(name: str) -> None:
    other = relay.load(SAMPLES / f"{name}.json", parameters(name)[1])
    tvm.ir.assert_structural_equal(other, _loaded(name), map_free_vars=True)


def test_weights_may_stay_arguments() -> None:
    mod = relay.load(SAMPLES / "mlp.relay")
    inputs, weights = parameters("mlp")
    assert [p.name for p in mod["main"].params] == ["data", *weights]
    executable = tvm.compile(mod, "llvm")
    bound = run_vm(tvm.compile(_loaded("mlp"), "llvm"), inputs)
    assert_close(run_vm(executable, [*inputs, *weights.values()])[0], bound[0], 1e-6)


def test_weights_come_from_a_file(tmp_path: Path) -> None:
    path = save_weights("mlp", tmp_path / "mlp.params")
    text = (SAMPLES / "mlp.relay").read_text()
    tvm.ir.assert_structural_equal(relay.load(text, path), _loaded("mlp"), map_free_vars=True)


def test_a_name_that_the_text_changed_is_found() -> None:
    text = '#[version = "0.0.5"]\ndef @main(%v1.w: Tensor[(2), float32]) { exp(%v1.w) }\n'
    assert not relay.load(text, {"1.w": parameters("branches")[1]["b"][:2]})["main"].params


def test_windows_in_the_padding_alone_are_scheduled() -> None:
    text = """#[version = "0.0.5"]
def @main(%x: Tensor[(1, 16, 7, 8), float32]) {
  %0 = nn.relu(%x);
  %1 = nn.avg_pool2d(%0, pool_size=[2, 2], strides=[3, 3], padding=[1, 1, 2, 2], ceil_mode=True);
  %2 = nn.adaptive_avg_pool2d(%0, output_size=[3, 5]);
  (%1, %2, nn.adaptive_avg_pool2d(%0, output_size=[7, 4]))
}
"""
    check_scheduled(relay.load(text))
