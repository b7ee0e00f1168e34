# SPDX-License-Identifier: Apache-2.0
"""``tvm_ios.compile`` and ``tvm_ios.load``: files and Relax modules as functions of arrays.

Those of PyTorch are in ``tests/pytorch``.
"""

from __future__ import annotations

import json
import platform
from pathlib import Path

import numpy as np
import pytest

import tvm_ios
from support.database import branches
from support.relay.samples import check_outputs, parameters, save_weights
from support.relay.text import SAMPLES
from tvm_ios.errors import ModelError, OptionError, TargetError


def test_a_relay_model_with_its_weights(tmp_path: Path) -> None:
    save_weights("branches", tmp_path / "weights.params")
    made = tvm_ios.compile(
        SAMPLES / "branches.relay", params=tmp_path / "weights.params", search=False
    )
    check_outputs("branches", list(made(*parameters("branches")[0])))


def test_a_cpu_that_is_not_this_one_is_refused_before_anything_is_read() -> None:
    with pytest.raises(TargetError, match="cannot run code for"):
        tvm_ios.compile("missing.onnx", target=foreign_cpu())


def foreign_cpu() -> str:
    """A CPU target of another architecture."""
    here = platform.machine()
    triple = "x86_64-linux-gnu" if here == "aarch64" else "aarch64-linux-gnu"
    return json.dumps({"kind": "llvm", "mtriple": triple})


def test_a_relax_module_with_a_given_schedule() -> None:
    first = tvm_ios.compile(branches(), search=False)
    again = tvm_ios.compile(branches(), schedule=first.schedule)
    (x,) = (np.random.default_rng(7).standard_normal(i.shape, "float32") for i in first.inputs)
    np.testing.assert_array_equal(first(x), again(x))


@pytest.mark.parametrize(
    ("model", "message"),
    [(3, "got int"), ("missing.pt2", "There is no model"), ("weights.pth", r"torch\.export\.save")],
)
def test_models_that_cannot_be_read(model, message: str, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "weights.pth").write_bytes(b"x")
    with pytest.raises(ModelError, match=message):
        tvm_ios.compile(model)


def test_options_that_do_not_fit() -> None:
    (image,) = (
        np.zeros(i.shape, i.dtype) for i in tvm_ios.compile(branches(), search=False).inputs
    )
    with pytest.raises(OptionError, match="example_inputs apply only to"):
        tvm_ios.compile(branches(), (image,))
    with pytest.raises(ModelError, match="leaves its first dimension open for a batch size"):
        tvm_ios.compile(branches(), batch=2)
