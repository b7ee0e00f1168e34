# SPDX-License-Identifier: Apache-2.0
"""What is said of a schedule for a GPU: the device, the streams, the kernels."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.draw import on_a_gpu
from tvm_ios import draw
from tvm_ios.cli.main import main
from tvm_ios.draw import words


@pytest.mark.parametrize("write", [lambda s: draw.svg([s]), lambda s: draw.html([s]), draw.dot])
def test_pictures(write) -> None:
    text = write(on_a_gpu())
    assert "cuda sm_90" in text
    assert "thread" not in text
    assert "concurrent, 2 streams, widest first" in text
    assert "concurrent, one launch" in text


def test_what_is_known_of_an_operator() -> None:
    schedule = on_a_gpu()
    assert words.details(schedule.operators[0], schedule.target)[-2:] == [
        "3.0 µs alone",
        "kernel gemm_fp32_16x32x32",
    ]
    assert words.details(schedule.operators[-1], schedule.target) == ["topk"]


def test_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "s.json"
    on_a_gpu().save(path)
    assert main(["show", str(path)]) == 0
    text = capsys.readouterr().out
    assert "target cuda sm_90\n" in text
    assert "gemm_fp32_16x32x32 → gemm_fp32_16x32x32" in text
    assert "2 streams, widest first" in text
    assert "thread" not in text
