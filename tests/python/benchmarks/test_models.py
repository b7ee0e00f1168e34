# SPDX-License-Identifier: Apache-2.0
"""A survey of public models: its figures, its file and its page."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import models
from public.catalogue import MODELS, TINY, find
from public.page import render
from public.record import Outcome, Run, Survey, from_json


@pytest.fixture
def survey() -> Survey:
    good = Outcome("good", "classic", "timm")
    good.runs = {
        "ours_onnx": Run(compile_s=7.0, again_s=2.5, error=2e-7, rounds_ms=[4.0, 2.0, 3.0]),
        "ours_pt2": Run(compile_s=9.0, again_s=3.0, error=1e-7, rounds_ms=[2.0, 2.0, 2.0]),
        "onnxruntime": Run(error=1e-7, rounds_ms=[3.0, 2.5, 3.0]),
        "openvino": Run(error=1e-7, rounds_ms=[5.0, 5.0, 5.0]),
    }
    half = Outcome("half", "mixer", "timm")
    half.runs = {
        "ours_onnx": Run(failure="wrong by 2.0e-01 of the largest output", error=0.2),
        "ours_pt2": Run(compile_s=1.0, again_s=1.0, error=0.0, rounds_ms=[6.0]),
        "onnxruntime": Run(failure="gave no answer within 300 s"),
    }
    lost = Outcome("lost", "mixer", "timm", failure="it cannot be exported: why")
    return Survey("2026-01-02T03:04", {"cpu": "Abacus"}, 2, {}, {"tvm": "0"}, [good, half, lost])


def test_figures(survey: Survey) -> None:
    good, half, lost = survey.outcomes
    assert [outcome.comes_in for outcome in survey.outcomes] == [True, True, False]
    assert (good.own, good.best_peer) == ("ours_pt2", "onnxruntime")
    assert good.best_over_ours().median == pytest.approx(1.5)
    assert (half.own, half.best_peer, half.best_over_ours()) == ("ours_pt2", None, None)
    assert lost.own is None


def test_the_file_holds_all(survey: Survey) -> None:
    data = json.loads(json.dumps(survey.to_json()))
    assert from_json(data) == survey
    with pytest.raises(ValueError, match=r"no tvm_ios.models of version 1"):
        from_json({**data, "version": 0})


def test_the_page_names_every_failure(survey: Survey) -> None:
    page = render(survey)
    assert "2 of 3 models come in" in page
    assert "- 1 come in by ONNX." in page
    assert "median 1.50" in page
    assert "| good  | 2.00 |" in page
    assert "- half, ours by ONNX: wrong by 2.0e-01 of the largest output" in page
    assert "- half, ONNX Runtime: gave no answer within 300 s" in page
    assert "- lost: it cannot be exported: why" in page


def test_compile_times_beside_torch(survey: Survey) -> None:
    assert "torch.compile s" not in render(survey)
    good, half, _ = survey.outcomes
    assert good.compile_ratios("torch") is None
    good.runs["torch"] = Run(compile_s=28.0, again_s=4.0, error=0.0, rounds_ms=[2.5])
    half.runs["torch"] = Run(failure="gave no answer within 300 s")
    assert good.compile_ratios("torch") == (7 / 28, 2.5 / 28)
    page = render(survey)
    assert "÷ that of torch.compile: median 0.25 the first time, 0.089 again, over 1" in page
    assert "28.0 |     4.0 |" in page


def test_the_page_is_made_from_the_file(survey: Survey, tmp_path: Path, capsys) -> None:
    file, page = tmp_path / "s.json", tmp_path / "models.md"
    assert models.main(["--page", str(page)]) == 1
    assert "--page needs --json FILE" in capsys.readouterr().err
    file.write_text(json.dumps(survey.to_json()))
    assert models.main(["--json", str(file), "--page", str(page)]) == 0
    assert page.read_text() == render(survey)
    file.write_text("{}")
    assert models.main(["--json", str(file)]) == 1
    assert "is no file of models.py --json" in capsys.readouterr().err


def test_the_catalogue(capsys) -> None:
    assert len({model.name for model in MODELS}) == len(MODELS) >= 60
    assert all(find(name).name == name for name in TINY)
    assert models.main(["--ways", "tflite"]) == 1
    assert "there are onnx and pt2" in capsys.readouterr().err
    assert models.main(["--models", "lcnet_050,resnet51"]) == 1
    assert "There is no model 'resnet51'; there are: alexnet" in capsys.readouterr().err
