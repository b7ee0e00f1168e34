# SPDX-License-Identifier: Apache-2.0
"""``tvm_ios.compile`` and ``tvm_ios.load``: modules of PyTorch as functions of tensors."""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np
import pytest
import torch

import tvm_ios
from support import outputs
from support.networks import relax_module
from support.torch_modules import OneResult, image, network
from tvm_ios.cli.main import main
from tvm_ios.errors import ModelError, OptionError


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
    assert "leaves its first dimension open" in capsys.readouterr().err


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


@torch.no_grad()
def test_shapes_of_a_dynamic_program(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program, module = dynamic_program(), network(OneResult)
    made = tvm_ios.compile(program, search=False, batch=3)
    assert made.inputs[0].shape[0] == 3
    torch.testing.assert_close(made(image(batch=3)), module(image(batch=3)), rtol=1e-4, atol=1e-5)
    with pytest.raises(ModelError, match="The program does not allow these shapes"):
        tvm_ios.compile(program, search=False, batch=9)
    torch.export.save(program, tmp_path / "net.pt2")
    command = ["compile", str(tmp_path / "net.pt2"), "-o", str(tmp_path / "net.so"), "--no-search"]
    assert main([*command, "--batch", "9"]) == 4
    assert "The program does not allow these shapes" in capsys.readouterr().err
    assert main([*command, "--batch-sizes", "1,4", "--one-library"]) == 0
    made = tvm_ios.load(tmp_path / "net.so")
    for batch in (1, 4, 6):
        x = image(batch=batch)
        torch.testing.assert_close(made(x), module(x), rtol=1e-4, atol=1e-5)


@torch.no_grad()
def test_several_shapes_of_a_module() -> None:
    module, x = network(OneResult), image()
    shapes = {"x": [x.shape, (4, *x.shape[1:])]}
    for given in ({"shapes": shapes}, {"batch_sizes": [1, 2]}):
        made = tvm_ios.compile(module, (x,), search=False, **given)
        assert len(made.schedules) == 2
        x = image(batch=5)
        torch.testing.assert_close(made(x), module(x), rtol=1e-4, atol=1e-5)
    x = image()
    with pytest.raises(ModelError, match="The module has no input 'y'; its inputs: x"):
        tvm_ios.compile(module, (x,), search=False, shapes={"y": [(1, 2)]})
    with pytest.raises(ModelError, match="'x' has 4 dimensions"):
        tvm_ios.compile(module, (x,), search=False, shapes={"x": [(1, 2), (3, 4)]})


@pytest.mark.parametrize(
    ("model", "inputs", "message"),
    [
        (lambda: network(), None, "give example_inputs"),
        (lambda: network().train(), (image(),), r"call its eval\(\)"),
        (training_in_part, (image(),), r"norm is in training mode; call the module's eval\(\)"),
        (lambda: Branching().eval(), (image(),), "cannot export the module"),
        (lambda: Changing().eval(), (image(),), "changes count in place"),
    ],
)
def test_models_that_cannot_be_read(model, inputs, message: str) -> None:
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


def test_outputs_are_the_callers_own() -> None:
    """Inputs, constants and values that are outputs, too; written to, they change nothing."""
    model = tvm_ios.compile(relax_module(outputs.network, outputs.SHAPE), search=False)
    x = torch.randn(*outputs.SHAPE)
    for _ in range(3):
        results = model(x)
        outputs.assert_equal([r.numpy() for r in results], outputs.expected(x.numpy()))
        for result in results:
            result.fill_(7.0)
