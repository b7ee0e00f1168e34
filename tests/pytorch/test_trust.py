# SPDX-License-Identifier: Apache-2.0
"""A .pt2 file that brings code: it is not executed unless the file is trusted."""

from __future__ import annotations

import contextlib
import io
import json
import pickle
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import tvm_ios
from tvm_ios.cli.main import main
from tvm_ios.errors import ModelError
from tvm_ios.frontend.pytorch import load_program
from tvm_ios.frontend.pytorch.size_texts import is_guard, is_size


class Network(torch.nn.Module):
    """With weights, a constant, and results in containers."""

    def __init__(self) -> None:
        super().__init__()
        self.head = torch.nn.Linear(4, 3)

    def forward(self, x):
        y = self.head(x) + torch.tensor([1.0, 2.0, 3.0])
        return {"sum": y, "parts": torch.split(y, 1, 1)}


class Writing:
    """Writes a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __reduce__(self):
        return Path.write_text, (self._path, "executed")


Files = dict[str, bytes]


def edited(change: Callable[[Any, Path], object]) -> Callable[[Files, Path], None]:
    """The program's JSON with a change."""

    def edit(files: Files, mark: Path) -> None:
        program = json.loads(files["models/model.json"])
        change(program, mark)
        files["models/model.json"] = json.dumps(program).encode()

    return edit


def nodes(program: Any) -> list[Any]:
    return program["graph_module"]["graph"]["nodes"]


def pickled(mark: Path) -> bytes:
    buffer = io.BytesIO()
    torch.save((Writing(mark),), buffer)
    return buffer.getvalue()


def example_inputs(files: Files, mark: Path) -> None:
    files["data/sample_inputs/model.pt"] = pickled(mark)


def weights(files: Files, mark: Path) -> None:
    name = "data/weights/model_weights_config.json"
    config = json.loads(files[name])
    entry = next(iter(config["config"].values()))
    entry["use_pickle"] = True
    files[name] = json.dumps(config).encode()
    files[f"data/weights/{entry['path_name']}"] = pickled(mark)


def constants(files: Files, mark: Path) -> None:
    name = "data/constants/model_constants_config.json"
    config = json.loads(files[name])
    next(iter(config["config"].values())).update(path_name="opaque_obj_0", use_pickle=True)
    files[name] = json.dumps(config).encode()
    files["data/constants/opaque_obj_0"] = pickle.dumps(Writing(mark))


def legacy_weights(files: Files, mark: Path) -> None:
    files["data/weights/model.pt"] = pickled(mark)


def compiled_code(files: Files, _: Path) -> None:
    files["data/aotinductor/model/model.so"] = b"\x7fELF"


@edited
def expression(program: Any, mark: Path) -> None:
    value = next(iter(program["graph_module"]["graph"]["tensor_values"].values()))
    code = f"__import__('pathlib').Path({str(mark)!r}).write_text('executed')"
    value["sizes"][0] = {"as_expr": {"expr_str": code, "hint": {"as_int": 2}}}


@edited
def guard(program: Any, mark: Path) -> None:
    code = f"__import__('pathlib').Path({str(mark)!r}).write_text('executed') == 1"
    program["guards_code"] = [code]


@edited
def call(program: Any, _: Path) -> None:
    nodes(program)[0]["target"] = "torch.os.system"


@edited
def operator_argument(program: Any, _: Path) -> None:
    nodes(program)[0]["inputs"][0]["arg"] = {"as_operator": "torch.os.system"}


@edited
def name(program: Any, mark: Path) -> None:
    nodes(program)[0]["name"] = f"x = open({str(mark)!r}, 'w')"


@edited
def container(program: Any, _: Path) -> None:
    signature = program["graph_module"]["module_call_graph"][0]["signature"]
    protocol, spec = json.loads(signature["out_spec"])
    context = {"default_factory_module": "antigravity", "default_factory_name": "x"}
    spec |= {"type": "collections.defaultdict", "context": json.dumps(context)}
    signature["out_spec"] = json.dumps([protocol, spec])


@edited
def key(program: Any, _: Path) -> None:
    signature = program["graph_module"]["module_call_graph"][0]["signature"]
    protocol, spec = json.loads(signature["out_spec"])
    spec["context"] = json.dumps([{"__enum__": True, "fqn": "antigravity:x", "name": "y"}] * 2)
    signature["out_spec"] = json.dumps([protocol, spec])


def saved(path: Path) -> Path:
    torch.manual_seed(0)
    program = torch.export.export(Network().eval(), (torch.ones(2, 4),))
    torch.export.save(program, path)
    return path


def rewritten(path: Path, edit: Callable[[Files, Path], None], mark: Path) -> None:
    """The archive with other members, each beside the first as torch wants them."""
    with zipfile.ZipFile(path) as archive:
        root = archive.namelist()[0].split("/")[0]
        files = {name.partition("/")[2]: archive.read(name) for name in archive.namelist()}
    edit(files, mark)
    with zipfile.ZipFile(path, "w") as archive:
        for member, content in files.items():
            archive.writestr(f"{root}/{member}", content)


MALICIOUS = {
    "example inputs": (example_inputs, "example inputs that are not tensors alone"),
    "weights": (weights, "pickled tensors or objects"),
    "constants": (constants, "pickled tensors or objects"),
    "legacy weights": (legacy_weights, "data/weights/model.pt"),
    "compiled code": (compiled_code, "data/aotinductor/model/model.so"),
    "an expression": (expression, 'the size "__import__'),
    "a guard": (guard, 'the guard "__import__'),
    "a call": (call, "a call of 'torch.os.system'"),
    "a function as an argument": (operator_argument, "'as_operator'"),
    "a name that is code": (name, 'the name "x = open'),
    "a container": (container, "the container 'collections.defaultdict'"),
    "a key of a container": (key, "keys that are objects"),
}


@pytest.mark.parametrize("case", MALICIOUS)
def test_code_is_not_executed_without_trust(case: str, tmp_path: Path, capsys) -> None:
    edit, message = MALICIOUS[case]
    path, mark = saved(tmp_path / "net.pt2"), tmp_path / "executed"
    rewritten(path, edit, mark)
    with pytest.raises(ModelError, match="may execute code"):
        tvm_ios.compile(path, search=False)
    assert main(["compile", str(path), "-o", str(tmp_path / "net.so"), "--no-search"]) == 4
    said = capsys.readouterr().err
    assert message in said
    assert "--trust" in said
    assert not mark.exists()


@pytest.mark.parametrize("case", ["example inputs", "weights", "constants", "an expression"])
def test_trust_lets_torch_execute_it(case: str, tmp_path: Path) -> None:
    """What these files bring is executed by torch: the cases above are real."""
    path, mark = saved(tmp_path / "net.pt2"), tmp_path / "executed"
    rewritten(path, MALICIOUS[case][0], mark)
    with contextlib.suppress(ModelError):  # what was executed gave no tensors
        load_program(path, trust=True)
    assert mark.read_text() == "executed"


def test_the_older_format_needs_trust(tmp_path: Path) -> None:
    path, mark = tmp_path / "net.pt2", tmp_path / "executed"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("version", "8.8")
        archive.writestr("serialized_state_dict.pt", pickled(mark))
    with pytest.raises(ModelError, match="an older format"):
        tvm_ios.compile(path)
    assert not mark.exists()


def test_what_brings_no_code_needs_no_trust(tmp_path: Path) -> None:
    path, x = saved(tmp_path / "net.pt2"), torch.rand(2, 4)
    again = tmp_path / "again.pt2"
    again.write_bytes(path.read_bytes())
    rewritten(again, lambda files, mark: None, tmp_path)
    expected = torch.export.load(path).module()(x)["sum"]
    for file in (path, again):
        torch.testing.assert_close(load_program(file).module()(x)["sum"], expected)


def test_the_network_of_a_file_in_the_command_line(tmp_path: Path) -> None:
    path = saved(tmp_path / "net.pt2")
    for trust in ([], ["--trust"]):
        arguments = ["compile", str(path), "-o", str(tmp_path / "net.so"), "--no-search"]
        assert main([*arguments, *trust]) == 0


def test_sizes_that_stay_open_need_no_trust(tmp_path: Path) -> None:
    dynamic = ({0: torch.export.Dim("rows", max=9)},)
    program = torch.export.export(Network().eval(), (torch.ones(2, 4),), dynamic_shapes=dynamic)
    torch.export.save(program, tmp_path / "net.pt2")
    assert load_program(tmp_path / "net.pt2").range_constraints


@pytest.mark.parametrize(
    ("text", "is_allowed"),
    [
        ("Symbol('s0', positive=True, integer=True)", True),
        ("Add(Mul(Integer(-2), Symbol('s1', integer=True)), Integer(3))", True),
        ("TruncToInt(Mul(Float('1.5', precision=53), ToFloat(Symbol('s0'))))", True),
        ("Pow(Symbol('s0'), Integer(2))", True),
        ("Pow(Integer(9), Pow(Integer(9), Integer(9)))", False),
        ("Symbol('s0 = 1')", False),
        ("Symbol(open('x'))", False),
        ("Function('f')(Symbol('s0'))", False),
        ("(lambda: Integer(1))()", False),
        ("Symbol.__init__('s0')", False),
        ("Integer(*[1])", False),
        ("Symbol('s0', **{})", False),
        ("[Integer(1) for _ in Symbol('s0')]", False),
        ("", False),
    ],
)
def test_expressions_of_sizes(text: str, is_allowed: bool) -> None:
    assert is_size(text) == is_allowed


@pytest.mark.parametrize(
    ("text", "is_allowed"),
    [
        ("L['x'].size()[0] == L['y'].size()[1]", True),
        ("3*L['x'].size()[0] < 10 + L['d']['k'].size()[0]", True),
        ("not (math.trunc(1.5*float(L['x'].size()[0])) % 2) == 0", True),
        ("L['x'].__class__ == 1", False),
        ("torch.load('x') == 1", False),
        ("open('x') == 1", False),
        ("L['x; y'] == 1", False),
        ("max(*L) == 1", False),
        ("(x := 1) == 1", False),
    ],
)
def test_guards(text: str, is_allowed: bool) -> None:
    assert is_guard(text) == is_allowed
