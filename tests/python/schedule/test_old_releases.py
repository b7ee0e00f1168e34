# SPDX-License-Identifier: Apache-2.0
"""A schedule that an earlier release wrote is read, and applied as it says."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import tvm

import tvm_ios
from support.cli import SHAPE, reference, relative_error, save_branches
from support.paths import TESTS
from tvm_ios.schedule import Schedule

WRITTEN = TESTS / "data" / "schedules" / "branches.json"


def test_a_schedule_of_an_earlier_release(tmp_path: Path) -> None:
    model, here = tmp_path / "model.onnx", tmp_path / "s.json"
    save_branches(model)
    data = json.loads(WRITTEN.read_text())
    target = tvm.target.Target(data["target"])
    data["target"] = str(tvm_ios.target.resolve(target, threads=2))
    here.write_text(json.dumps(data))
    compiled = tvm_ios.compile(model, threads=2, input_shapes={"image": SHAPE}, schedule=here)
    image = np.random.default_rng(3).standard_normal(SHAPE).astype("float32")
    assert relative_error(compiled(image), reference(model, image)) < 1e-5
    applied = compiled.schedule
    assert [stage.groups for stage in applied.stages] == [
        (("conv2d_0", "conv2d_2"),),
        (("conv2d_1",), ("conv2d_3",)),
        (("concat_4", "mean_5", "reshape_6"),),
    ]
    assert not applied.winograd
    assert applied.measurements == 31
    again = Schedule.from_dict(json.loads(applied.to_json()))
    assert again == applied
