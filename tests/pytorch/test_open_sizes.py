# SPDX-License-Identifier: Apache-2.0
"""Programs of PyTorch whose dimensions stay open: what their libraries compute at any sizes."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
import torchvision
from torch import nn
from torch.export import Dim

import tvm_ios
from tvm_ios.errors import ModelError, OptionError

AUTO = Dim.AUTO

Shapes = Sequence[Sequence[int]]


def drawn(like: torch.Tensor, shape: Sequence[int]) -> torch.Tensor:
    if like.dtype.is_floating_point:
        return torch.randn(shape)
    return torch.randint(0, 2, tuple(shape)).to(like.dtype)


@torch.no_grad()
def assert_any_sizes(
    module: nn.Module,
    examples: Sequence[torch.Tensor],
    dynamic_shapes: Any,
    calls: Sequence[Shapes],
    *,
    tolerance: float = 1e-4,
    threads: int = 2,
) -> tvm_ios.CompiledModel:
    """Compile a module with open dimensions, and compare it with PyTorch at some sizes."""
    module = module.eval()
    made = tvm_ios.compile(
        module, examples, dynamic_shapes=dynamic_shapes, search=False, threads=threads
    )
    assert any(None in info.shape for info in made.inputs), "sizes are open"
    for shapes in calls:
        inputs = [drawn(like, shape) for like, shape in zip(examples, shapes, strict=True)]
        wanted, found = module(*inputs), made(*inputs)
        for a, b in zip(tuples(found), tuples(wanted), strict=True):
            bound = tolerance * max(1.0, float(b.abs().max()))
            torch.testing.assert_close(a, b, rtol=0, atol=bound)
    return made


def tuples(value: Any) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else (value,)


class Function(nn.Module):
    """A module of a function."""

    def __init__(self, function: Any, *parts: nn.Module) -> None:
        super().__init__()
        self.function, self.parts = function, nn.ModuleList(parts)

    def forward(self, *inputs: torch.Tensor) -> Any:
        return self.function(*self.parts, *inputs)


class UNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.down = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 16, 3, 2, 1)
        self.deep, self.last = nn.Conv2d(16, 8, 3, padding=1), nn.Conv2d(16, 4, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        wide = F.relu(self.first(x))
        deep = self.deep(F.relu(self.down(wide)))
        twice = F.interpolate(deep, scale_factor=2.0, mode="nearest")
        same = F.interpolate(twice, size=wide.shape[2:], mode="bilinear")
        return self.last(torch.cat([wide, same], 1))


class Recurrent(nn.Module):
    def __init__(self, kind: type[nn.Module]) -> None:
        super().__init__()
        self.layers = kind(8, 16, num_layers=2, batch_first=True, bidirectional=True)
        self.head = nn.Linear(32, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.layers(x)[0])


class Decoder(nn.Module):
    """A block of a causal language model, which returns the scores of the next word."""

    def __init__(self, width: int = 32, words: int = 50, longest: int = 64) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(words, width), nn.Embedding(longest, width)
        self.norms = nn.ModuleList([nn.LayerNorm(width), nn.LayerNorm(width)])
        self.together, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.dense = nn.Sequential(
            nn.Linear(width, 64), nn.GELU(approximate="tanh"), nn.Linear(64, width)
        )
        self.head = nn.Linear(width, words, bias=False)

    def forward(self, indices: torch.Tensor) -> torch.Tensor:
        batch, steps = indices.shape
        x = self.words(indices) + self.places(torch.arange(steps))
        parts = self.together(self.norms[0](x)).split(x.shape[-1], 2)
        q, k, v = (p.view(batch, steps, 4, -1).transpose(1, 2) for p in parts)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, steps, -1))
        x = x + self.dense(self.norms[1](x))
        return self.head(x[:, -1:])


def residual() -> nn.Module:
    block = torchvision.models.resnet.BasicBlock
    return torchvision.models.ResNet(block, [1, 1, 1, 1], num_classes=10)


def encoder() -> nn.Module:
    layer = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True, activation="gelu")
    return nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)


def signals() -> nn.Module:
    return nn.Sequential(
        nn.Conv1d(4, 8, 5, padding=2), nn.BatchNorm1d(8), nn.ReLU(), nn.AvgPool1d(2),
        nn.Conv1d(8, 8, 3, dilation=2, padding=2), nn.ReLU(), nn.AdaptiveAvgPool1d(1),
        nn.Flatten(), nn.Linear(8, 3),
    )  # fmt: skip


BATCH, STEPS = Dim("batch"), Dim("steps")
IMAGES = ({0: BATCH, 2: AUTO, 3: AUTO},)
ROWS = ({0: BATCH, 1: STEPS},)

NETWORKS = {
    "resnet": (
        residual, torch.randn(2, 3, 64, 64), IMAGES,
        [(1, 3, 64, 64), (3, 3, 65, 97)],
    ),
    "mobilenet": (
        lambda: torchvision.models.mobilenet_v3_small(num_classes=10), torch.randn(2, 3, 64, 64),
        IMAGES, [(1, 3, 64, 64), (3, 3, 65, 97)],
    ),
    "vision transformer": (
        lambda: torchvision.models.VisionTransformer(32, 8, 2, 4, 32, 64, num_classes=10),
        torch.randn(2, 3, 32, 32), ({0: BATCH},), [(1, 3, 32, 32), (5, 3, 32, 32)],
    ),
    "encoder": (encoder, torch.randn(2, 7, 32), ROWS, [(1, 1, 32), (3, 17, 32), (2, 33, 32)]),
    "lstm": (
        lambda: Recurrent(nn.LSTM), torch.randn(2, 7, 8), ({0: BATCH},), [(1, 7, 8), (5, 7, 8)],
    ),
    "gru": (
        lambda: Recurrent(nn.GRU), torch.randn(2, 7, 8), ({0: BATCH},), [(1, 7, 8), (5, 7, 8)],
    ),
    "u-net": (
        UNet, torch.randn(2, 3, 32, 32), IMAGES, [(1, 3, 32, 32), (3, 3, 17, 40), (1, 3, 5, 7)],
    ),
    "decoder": (
        Decoder, torch.randint(0, 50, (2, 9)), ({0: BATCH, 1: Dim("steps", max=64)},),
        [(1, 1), (3, 17), (2, 64)],
    ),
    "signals": (
        signals, torch.randn(2, 4, 32), ({0: BATCH, 2: AUTO},),
        [(1, 4, 32), (3, 4, 17), (1, 4, 5)],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", NETWORKS)
def test_networks(name: str) -> None:
    make, example, dynamic, calls = NETWORKS[name]
    torch.manual_seed(0)
    assert_any_sizes(make(), [example], dynamic, [[shape] for shape in calls], tolerance=5e-4)


FUNCTIONS = {
    "broadcast": (lambda x: x + x.sum(1, keepdim=True) + x[:, :1], [(1, 1, 4), (3, 5, 4)]),
    "slices": (lambda x: (x[:, -1:], x[..., 1:3], x[:, ::2]), [(1, 1, 4), (2, 6, 4), (3, 7, 4)]),
    "a part": (lambda x: x[:, -1], [(1, 1, 4), (3, 5, 4)]),
    "sizes as numbers": (lambda x: x * x.shape[1] - x.shape[0], [(1, 1, 4), (3, 5, 4)]),
    "positions": (
        lambda x: x + torch.arange(x.shape[1], dtype=torch.float32)[:, None] / x.shape[0],
        [(1, 1, 4), (3, 5, 4)],
    ),
    "joined axes": (lambda x: x.reshape(-1, 4).t().reshape(-1), [(1, 1, 4), (3, 5, 4)]),
    "split axes": (
        lambda x: x.view(x.shape[0], x.shape[1], 2, 2).permute(0, 2, 1, 3).flatten(1),
        [(1, 1, 4), (3, 5, 4)],
    ),
    "repeated": (lambda x: x.repeat(2, 1, 3), [(1, 1, 4), (3, 5, 4)]),
    "filled": (
        lambda x: torch.cat([x, torch.full((x.shape[0], 2, 4), 3.0), torch.zeros_like(x)], 1),
        [(1, 1, 4), (3, 5, 4)],
    ),
    "padded": (lambda x: F.pad(x, (1, 0, 2, 3), value=1.5), [(1, 1, 4), (3, 5, 4)]),
    "statistics": (
        lambda x: (x.mean((0, 1)), x.var(1, correction=0), x.amax(1), x.argmax(1)),
        [(1, 1, 4), (3, 5, 4)],
    ),
    "deviation": (lambda x: x.std(1), [(1, 2, 4), (3, 5, 4)]),
    "softmax": (lambda x: x.softmax(1), [(1, 1, 4), (3, 5, 4)]),
    "causal mask": (
        lambda x: (x @ x.mT).masked_fill(
            torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1), -1e9
        ),
        [(1, 1, 4), (3, 5, 4)],
    ),
    "diagonal": (lambda x: (x @ x.mT).diagonal(dim1=1, dim2=2), [(1, 1, 4), (3, 5, 4)]),
    "windows": (lambda x: x.unfold(1, 3, 2), [(1, 3, 4), (3, 9, 4)]),
    "chunks": (lambda x: torch.cat(x.chunk(2, 2)[::-1], 2), [(1, 1, 4), (3, 5, 4)]),
    "replaced": (
        lambda x: torch.slice_scatter(x, x[:, :1] * 2, 1, 0, 1), [(1, 2, 4), (3, 5, 4)],
    ),
    "squares": (lambda x: x.sum() / (x.shape[0] * x.shape[1] * 4), [(1, 1, 4), (3, 5, 4)]),
}  # fmt: skip


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions(name: str) -> None:
    function, calls = FUNCTIONS[name]
    examples, dynamic = [torch.randn(2, 6, 4)], (({0: AUTO, 1: AUTO},),)
    wanted = [[shape] for shape in calls if min(shape) > 1] + [[(2, 8, 4)]]
    made = assert_any_sizes(Function(function), examples, dynamic, wanted, threads=1)
    assert made.outputs


RESIZINGS: tuple[dict[str, Any], ...] = (
    {"scale_factor": 2.0, "mode": "nearest"},
    {"scale_factor": 1.5, "mode": "nearest"},
    {"scale_factor": 2.25, "mode": "nearest"},
    {"scale_factor": 1.5, "mode": "nearest-exact"},
    {"scale_factor": (2.0, 1.25), "mode": "bilinear"},
    {"scale_factor": 1.75, "mode": "bilinear", "align_corners": True},
    {"scale_factor": 1.5, "mode": "bicubic"},
)


@pytest.mark.parametrize("options", RESIZINGS, ids=str)
def test_resizing_by_a_factor(options: dict[str, Any]) -> None:
    dynamic = (({0: BATCH, 2: Dim("height"), 3: Dim("width")},),)
    shapes = [(1, 3, 3, 4), (2, 3, 17, 6), (1, 3, 2, 2), (1, 3, 31, 50)]
    module = Function(lambda x: F.interpolate(x, **options))
    calls = [[shape] for shape in shapes]
    assert_any_sizes(module, [torch.randn(2, 3, 16, 20)], dynamic, calls, tolerance=2e-5)


@pytest.mark.parametrize("mode", ["nearest", "nearest-exact", "bilinear", "bicubic"])
def test_resizing_to_the_size_of_another_tensor(mode: str) -> None:
    dynamic = (
        (
            {0: BATCH, 2: Dim("height"), 3: Dim("width")},
            {0: BATCH, 2: Dim("rows"), 3: Dim("columns")},
        ),
    )
    module = Function(lambda x, y: F.interpolate(x, size=y.shape[2:], mode=mode))
    examples = [torch.randn(2, 3, 16, 20), torch.randn(2, 3, 7, 9)]
    calls = [
        [(1, 3, 3, 4), (1, 3, 6, 9)],
        [(2, 3, 17, 6), (2, 3, 5, 6)],
        [(1, 3, 2, 2), (1, 3, 17, 33)],
        [(1, 3, 31, 50), (1, 3, 1, 1)],
    ]
    assert_any_sizes(module, examples, dynamic, calls, tolerance=2e-5)


def test_a_factor_that_leaves_a_size() -> None:
    """PyTorch's linear interpolation ignores it, also for sizes that are fixed."""
    x = torch.randn(1, 2, 3, 3)
    module = Function(lambda x: F.interpolate(x, scale_factor=(2.0, 1.25), mode="bilinear")).eval()
    torch.testing.assert_close(tvm_ios.compile(module, [x], search=False)(x), module(x))


def test_derived_dimensions() -> None:
    height = Dim("half", min=1, max=100)
    module = Function(lambda x: x.view(x.shape[0], 2, -1).sum(1))
    made = assert_any_sizes(
        module, [torch.randn(6, 8)], (({0: 2 * height},),), [[(4, 8)], [(10, 8)]]
    )
    with pytest.raises(ValueError, match="must fulfil"):
        made(torch.randn(5, 8))


def test_bounds_and_names() -> None:
    dynamic = (({0: BATCH, 1: Dim("steps", min=2, max=40)},),)
    linear = Function(lambda layer, x: layer(x), nn.Linear(8, 4))
    made = assert_any_sizes(linear, [torch.randn(3, 5, 8)], dynamic, [[(1, 2, 8)], [(7, 40, 8)]])
    for shape, said in (
        ((2, 41, 8), "steps must be at most 40"),
        ((2, 1, 8), "steps must be at least 2"),
        ((0, 3, 8), "batch must be at least 1"),
        ((2, 3, 7), r"float32\[batch, steps, 8\]"),
    ):
        with pytest.raises(ValueError, match=said):
            made(torch.randn(shape))


def test_what_a_program_assumes_is_checked() -> None:
    def function(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x + 1 if x.shape[0] * 3 < y.shape[0] + 10 else x - 1

    dynamic = (({0: AUTO}, {0: AUTO}),)
    examples = [torch.randn(2, 6), torch.randn(4)]
    made = assert_any_sizes(Function(function), examples, dynamic, [[(4, 6), (9,)]])
    with pytest.raises(ValueError, match="must fulfil"):
        made(torch.randn(5, 6), torch.randn(4))


def test_leaving_out_an_axis_of_an_open_size_is_checked() -> None:
    module = Function(lambda x: x.squeeze(0) * 2)
    made = assert_any_sizes(module, [torch.randn(3, 4)], (({0: BATCH},),), [[(2, 4)], [(5, 4)]])
    with pytest.raises(ValueError, match="must fulfil"):
        made(torch.randn(1, 4))


@torch.no_grad()
def test_sizes_that_are_given() -> None:
    module = nn.Linear(8, 4).eval()
    dynamic = ({0: BATCH, 1: Dim("steps", max=40)},)
    program = torch.export.export(module, (torch.randn(3, 5, 8),), dynamic_shapes=dynamic)
    for dims, shape in (({"steps": 7}, (None, 7, 8)), ({"batch": 2, "steps": 7}, (2, 7, 8))):
        made = tvm_ios.compile(program, search=False, dims=dims)
        assert made.inputs[0].shape == shape
        x = torch.randn([size or 3 for size in shape])
        torch.testing.assert_close(made(x), module(x), rtol=1e-4, atol=1e-5)
    with pytest.raises(ModelError, match="no open dimension 'rows'; it leaves open: batch, steps"):
        tvm_ios.compile(program, search=False, dims={"rows": 3})


@torch.no_grad()
def test_a_searched_example_has_a_function_of_its_own() -> None:
    module = nn.Linear(8, 4).eval()
    program = torch.export.export(module, (torch.randn(3, 8),), dynamic_shapes=({0: BATCH},))
    made = tvm_ios.compile(program, threads=1, max_group_size=1)
    assert len(made.schedules) == 2
    for rows in (1, 3, 10):
        x = torch.randn(rows, 8)
        torch.testing.assert_close(made(x), module(x), rtol=1e-4, atol=1e-5)


@torch.no_grad()
def test_a_file_on_the_command_line(tmp_path: Path) -> None:
    module = nn.Sequential(nn.Linear(8, 4), nn.ReLU()).eval()
    program = torch.export.export(module, (torch.randn(3, 5, 8),), dynamic_shapes=ROWS)
    torch.export.save(program, tmp_path / "net.pt2")
    command = [sys.executable, "-m", "tvm_ios", "compile", str(tmp_path / "net.pt2"), "--no-search"]
    subprocess.run([*command, "-o", str(tmp_path / "net.so")], check=True, capture_output=True)
    made = tvm_ios.load(tmp_path / "net.so")
    for shape in ((1, 1, 8), (4, 9, 8)):
        x = torch.randn(shape)
        torch.testing.assert_close(made(x), module(x), rtol=1e-4, atol=1e-5)


def test_what_is_refused() -> None:
    with pytest.raises(OptionError, match=r"only to a torch\.nn\.Module with example_inputs"):
        tvm_ios.compile(tmp := Path("net.onnx"), dynamic_shapes=({0: AUTO},))
    assert tmp.suffix == ".onnx"

    def counted(x: torch.Tensor) -> torch.Tensor:
        return x.nonzero()

    with pytest.raises(ModelError):
        tvm_ios.compile(
            Function(counted).eval(), [torch.randn(3, 4)], dynamic_shapes=(({0: AUTO},),)
        )
