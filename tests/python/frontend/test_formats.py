# SPDX-License-Identifier: Apache-2.0
"""Packages add formats of models by entry points, and are loaded when a model needs them."""

from __future__ import annotations

import logging
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from support.cli import assert_one_sentence
from tvm_ios import zoo
from tvm_ios.cli.main import main
from tvm_ios.errors import ModelError
from tvm_ios.frontend import formats
from tvm_ios.frontend.models import load_model

DRAWINGS = """
from tvm_ios import zoo
from tvm_ios.frontend.model_format import ModelFormat

def load(given):
    assert given.params == "weights"
    return zoo.load("bert_tiny", batch=given.batch)

FORMAT = ModelFormat(
    "a drawing", load, suffixes=(".draw",), help="a drawing (.draw)", weights="a sketch"
)
"""

Install = Callable[[str, str], None]


@pytest.fixture(autouse=True)
def _looked_for_anew() -> Iterator[None]:
    formats.installed.cache_clear()
    yield
    formats.installed.cache_clear()


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Installs a distribution of one module, which adds a format."""

    def put(name: str, code: str) -> None:
        (tmp_path / f"{name}.py").write_text(code)
        about = tmp_path / f"{name}-1.0.dist-info"
        about.mkdir()
        (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        entry = f"[{formats.ENTRY_POINTS}]\n{name} = {name}:FORMAT\n"
        (about / "entry_points.txt").write_text(entry)
        monkeypatch.syspath_prepend(tmp_path)
        monkeypatch.delitem(sys.modules, name, raising=False)

    return put


def test_a_package_adds_a_format(
    install: Install, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    install("drawings", DRAWINGS)
    (tmp_path / "net.draw").touch()
    mod = load_model(str(tmp_path / "net.draw"), batch=3, params="weights")
    assert mod["main"].params[0].ty.shape[0] == 3
    with pytest.raises(ModelError, match="only a drawing or a Relay model takes --params"):
        load_model("zoo:bert_tiny", params="weights")
    with pytest.raises(SystemExit):
        main(["compile", "--help"])
    told = " ".join(capsys.readouterr().out.split())
    assert "(.pt2), a drawing (.draw), a Relay model" in told
    assert "weights of a drawing, in a sketch; weights of a Relay model, in a file" in told


def test_a_format_that_cannot_be_loaded_is_told_of(
    install: Install, caplog: pytest.LogCaptureFixture
) -> None:
    install("broken", "import no_such_module")
    with caplog.at_level(logging.WARNING):
        assert load_model("zoo:bert_tiny")["main"]
    assert "'broken' of models cannot be loaded: No module named 'no_such_module'" in caplog.text


def test_a_scheme_goes_before_a_suffix() -> None:
    with pytest.raises(ModelError, match=r"has no network 'x\.onnx'"):
        load_model("zoo:x.onnx")


def test_a_source_tree_reads_what_is_built_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(formats, "entry_points", lambda group: ())
    zoo.export_onnx("bert_tiny", tmp_path / "net.onnx")
    assert load_model(str(tmp_path / "net.onnx"))["main"]
    for arguments in (["bench", "zoo:bert_tiny"], ["zoo"]):
        assert main(arguments) == 4
        assert_one_sentence(capfd.readouterr(), "install tvm-ios with pip")


def test_nothing_is_loaded_before_it_is_needed(tmp_path: Path) -> None:
    zoo.export_onnx("bert_tiny", tmp_path / "net.onnx")
    script = f"""
import sys, tvm_ios
from tvm_ios.frontend.models import load_model
load_model({str(tmp_path / "net.onnx")!r})
added = {{"tvm_ios.relay", "tvm_ios.zoo"}}
assert not added & sys.modules.keys()
assert {{"relay", "zoo"}} <= {{*dir(tvm_ios)}}
tvm_ios.zoo.load, tvm_ios.relay.load
assert not hasattr(tvm_ios, "no_such_module")
assert added <= sys.modules.keys()
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
