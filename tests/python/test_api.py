# SPDX-License-Identifier: Apache-2.0
"""``tvm_ios.compile`` and ``tvm_ios.load``: modules of PyTorch, files and Relax as functions."""

from __future__ import annotations

import json
import platform
import threading
from pathlib import Path

import numpy as np
import pytest

import tvm_ios
from database_support import branches
from relay_samples import check_outputs, parameters, save_weights
from relay_text_support import SAMPLES
from tvm_ios.cli.main import main
from tvm_ios.errors import ModelError, OptionError, TargetError

torch = pytest.importorskip("torch")

SHAPE = (2, 3, 17, 19)


class Network(torch.nn.Module):
    """Two branches, a batch normalisation, and two results."""

    def __init__(self) -> None:
        super().__init__()
        self.wide = torch.nn.Conv2d(3, 16, 3, padding=1)
        self.narrow = torch.nn.Conv2d(3, 8, 1)
        self.norm = torch.nn.BatchNorm2d(24)
        self.head = torch.nn.Linear(24, 10)

    def forward(self, x):
        y = torch.cat([torch.relu(self.wide(x)), self.narrow(x)], 1)
        y = self.norm(y)
        return self.head(y.mean((2, 3))), y


class OneResult(Network):
    def forward(self, x):
        return super().forward(x)[0]


def network(kind: type[torch.nn.Module] = Network) -> torch.nn.Module:
    torch.manual_seed(0)
    made = kind()
    made.norm.running_var.uniform_(0.5, 1.5)
    return made.eval()


def image(seed: int = 1) -> torch.Tensor:
    return torch.randn(SHAPE, generator=torch.Generator().manual_seed(seed))


@pytest.fixture(scope="module")
def compiled() -> tvm_ios.CompiledModel:
    return tvm_ios.compile(network(), (image(),), threads=2, max_group_size=2)


@torch.no_grad()
def test_a_module_gives_the_same_answers(compiled: tvm_ios.CompiledModel) -> None:
    x = image(2)
    for result, expected in zip(compiled(x), network()(x), strict=True):
        assert isinstance(result, torch.Tensor)
        torch.testing.assert_close(result, expected, rtol=1e-4, atol=1e-5)
    assert compiled.schedule.workers == 2
    assert compiled.schedule.measured["scheduled"] > 0
    assert [info.shape for info in compiled.outputs] == [(2, 10), (2, 24, 17, 19)]


@torch.no_grad()
def test_arrays_in_arrays_out(compiled: tvm_ios.CompiledModel) -> None:
    x = image(3)
    first, second = compiled(x.numpy())
    assert type(first) is type(second) is np.ndarray
    np.testing.assert_allclose(first, network()(x)[0].numpy(), rtol=1e-4, atol=1e-5)
    kept = second.copy()
    compiled(image(4).numpy())
    np.testing.assert_array_equal(second, kept)  # a result is its holder's
    second += 1.0


@torch.no_grad()
def test_saved_and_loaded(compiled: tvm_ios.CompiledModel, tmp_path: Path) -> None:
    path = tmp_path / "net.so"
    compiled.save(path)
    loaded, x = tvm_ios.load(path), image(5)
    assert torch.equal(loaded(x)[1], compiled(x)[1])
    assert loaded.schedule == compiled.schedule
    assert main(["run", str(path), "--json"]) == 0
    with pytest.raises(OptionError, match=r"NAME\.so"):
        compiled.save(tmp_path / "net")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["net.so"]


@torch.no_grad()
def test_several_threads_call_it(compiled: tvm_ios.CompiledModel) -> None:
    wrong: list[int] = []
    expected = [network()(image(seed))[0] for seed in range(4)]

    def call(seed: int) -> None:
        for _ in range(20):
            if not torch.allclose(compiled(image(seed))[0], expected[seed], rtol=1e-4, atol=1e-5):
                wrong.append(seed)

    threads = [threading.Thread(target=call, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@torch.no_grad()
def test_an_exported_program_and_its_file(tmp_path: Path, capsys) -> None:
    module, x = network(OneResult), image(6)
    program, path = torch.export.export(module, (x,)), tmp_path / "net.pt2"
    torch.export.save(program, path)
    for model in (program, path):
        made = tvm_ios.compile(model, search=False)
        torch.testing.assert_close(made(x), module(x), rtol=1e-4, atol=1e-5)
    library = tmp_path / "net.so"
    assert main(["compile", str(path), "-o", str(library), "--no-search"]) == 0
    torch.testing.assert_close(tvm_ios.load(library)(x), module(x), rtol=1e-4, atol=1e-5)
    assert main(["compile", str(path), "-o", str(library), "--batch", "3"]) == 4
    assert "fixed shapes" in capsys.readouterr().err


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


@torch.no_grad()
def test_a_backend_of_torch_compile() -> None:
    from tvm_ios.torch_backend import tvm_ios as backend

    module, options = network(OneResult), {"search": False}
    compiled = torch.compile(module, backend=backend, dynamic=False, options=options)
    for batch in (2, 3):  # another shape is another network
        x = torch.randn(batch, *SHAPE[1:])
        torch.testing.assert_close(compiled(x), module(x), rtol=1e-4, atol=1e-5)
    module.head.weight.mul_(2.0)
    torch.testing.assert_close(compiled(x), module(x), rtol=1e-4, atol=1e-5)
    module.head.weight = torch.nn.Parameter(torch.randn(10, 24))
    torch.testing.assert_close(compiled(x), module(x), rtol=1e-4, atol=1e-5)
    module.head.weight.data.mul_(2.0)  # PyTorch does not count it
    torch.compiler.reset()
    torch.testing.assert_close(compiled(x), module(x), rtol=1e-4, atol=1e-5)


@torch.no_grad()
def test_a_backend_of_torch_compile_in_inference_mode() -> None:
    from tvm_ios.torch_backend import tvm_ios as backend

    with torch.inference_mode():
        module = network(OneResult)  # its weights have no count of what was written to them
        options = {"search": False}
        compiled = torch.compile(module, backend=backend, dynamic=False, options=options)
        torch.testing.assert_close(compiled(image()), module(image()), rtol=1e-4, atol=1e-5)
        module.head.weight = torch.nn.Parameter(torch.randn(10, 24))
        torch.testing.assert_close(compiled(image()), module(image()), rtol=1e-4, atol=1e-5)


class Branching(torch.nn.Module):
    def forward(self, x):
        return x + 1 if x.sum() > 0 else x - 1


class Changing(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("count", torch.zeros(1))

    def forward(self, x):
        self.count.add_(1)
        return x + self.count


def training_in_part() -> torch.nn.Module:
    module = network()
    module.norm.train()
    return module


def dynamic_program() -> torch.export.ExportedProgram:
    dynamic = ({0: torch.export.Dim("batch", min=1, max=8)},)
    return torch.export.export(network(OneResult), (image(),), dynamic_shapes=dynamic)


@pytest.mark.parametrize(
    ("model", "inputs", "message"),
    [
        (lambda: network(), None, "give example_inputs"),
        (lambda: network().train(), (image(),), r"call its eval\(\)"),
        (training_in_part, (image(),), r"norm is in training mode; call the module's eval\(\)"),
        (lambda: Branching().eval(), (image(),), "cannot export the module"),
        (lambda: Changing().eval(), (image(),), "changes count in place"),
        (dynamic_program, None, "dynamic; export the model with fixed shapes"),
        (lambda: 3, None, "got int"),
        (lambda: "missing.pt2", None, "There is no model"),
        (lambda: "weights.pth", None, r"torch\.export\.save"),
    ],
)
def test_models_that_cannot_be_read(model, inputs, message: str, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "weights.pth").write_bytes(b"x")
    with pytest.raises(ModelError, match=message):
        tvm_ios.compile(model(), inputs)


def test_a_damaged_file(tmp_path: Path) -> None:
    path = tmp_path / "net.pt2"
    path.write_bytes(b"no program")
    with pytest.raises(ModelError, match="is damaged"):
        tvm_ios.compile(path)


def test_inputs_that_do_not_fit(compiled: tvm_ios.CompiledModel) -> None:
    with pytest.raises(ValueError, match="The model takes x float32"):
        compiled(image().double())
    with pytest.raises(OptionError, match="example_inputs are for"):
        tvm_ios.compile(branches(), (image(),))
    with pytest.raises(OptionError, match="input_shapes, batch and params are for files"):
        tvm_ios.compile(branches(), batch=2)
