# SPDX-License-Identifier: Apache-2.0
"""Random networks of PyTorch: their kinds, sizes, weights and inputs follow from a number.

Sizes are odd more often than not, so that vectors and blocks are not filled.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from random import Random

import torch
import torch.nn.functional as F
from torch import nn

_ACTIVATIONS: tuple[Callable[[], nn.Module], ...] = (
    nn.ReLU,
    nn.SiLU,
    nn.GELU,
    nn.Tanh,
    nn.Sigmoid,
    nn.Hardswish,
    nn.ELU,
    nn.LeakyReLU,
)


class Convolutions(nn.Module):
    """Convolutions with normalisations, activations, sums and poolings, and a classifier."""

    def __init__(self, random: Random) -> None:
        super().__init__()
        self.channels = random.choice((3, 4, 7))
        self.size = random.randrange(17, 40)
        width = random.choice((16, 24, 32, 37))
        self.stem = nn.Conv2d(self.channels, width, random.choice((1, 3, 7)), padding=1)
        self.blocks = nn.ModuleList(_block(random, width) for _ in range(random.randrange(1, 4)))
        self.pools = [random.choice((F.max_pool2d, F.avg_pool2d, None)) for _ in self.blocks]
        self.classify = nn.Linear(width, random.randrange(5, 90))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.stem(x)
        for block, pool in zip(self.blocks, self.pools, strict=True):
            x = x + block(x)
            x = x if pool is None else pool(x, 2)
        return self.classify(x.mean((2, 3)))

    def inputs(self) -> torch.Tensor:
        return torch.randn(1, self.channels, self.size, self.size + 3)


def _block(random: Random, width: int) -> nn.Module:
    """Return layers that keep the shape of a feature map."""
    window = random.choice((1, 3, 5))
    groups = random.choice((1, 1, width))
    inner = random.choice((width, 2 * width, 40))
    norm = random.choice((nn.BatchNorm2d(width), nn.GroupNorm(1, width), nn.Identity()))
    return nn.Sequential(
        nn.Conv2d(
            width, width, window, padding=window // 2, groups=groups, bias=random.random() < 0.5
        ),
        norm,
        random.choice(_ACTIVATIONS)(),
        nn.Conv2d(width, inner, 1),
        random.choice(_ACTIVATIONS)(),
        nn.Conv2d(inner, width, 1),
    )


class Perceptron(nn.Module):
    """Products by weights with activations and normalisations."""

    def __init__(self, random: Random) -> None:
        super().__init__()
        sizes = [random.randrange(20, 400) for _ in range(random.randrange(3, 6))]
        layers: list[nn.Module] = []
        for before, after in pairwise(sizes):
            layers += [nn.Linear(before, after), random.choice(_ACTIVATIONS)()]
            layers += [nn.LayerNorm(after)] if random.random() < 0.4 else []
        self.layers = nn.Sequential(*layers, nn.Linear(sizes[-1], random.randrange(3, 50)))
        self.rows, self.width = random.randrange(1, 30), sizes[0]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers(x)

    def inputs(self) -> torch.Tensor:
        return torch.randn(self.rows, self.width)


class Transformer(nn.Module):
    """Layers of attention and products, normalised before or after them."""

    def __init__(self, random: Random) -> None:
        super().__init__()
        heads = random.choice((2, 3, 4))
        self.width, self.length = heads * random.choice((16, 24, 32)), random.randrange(5, 90)
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(
                self.width,
                heads,
                random.choice((2, 4)) * self.width,
                activation=random.choice((F.relu, F.gelu)),
                batch_first=True,
                norm_first=random.random() < 0.5,
            )
            for _ in range(random.randrange(1, 3))
        )
        self.last = random.choice((nn.Identity(), nn.LayerNorm(self.width)))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x)
        return self.last(x)

    def inputs(self) -> torch.Tensor:
        return torch.randn(random_batch(self.length), self.length, self.width)


def random_batch(length: int) -> int:
    """Return more rows of short sequences."""
    return 1 + (length < 30)


class Recurrent(nn.Module):
    """A recurrent layer, and products of its results."""

    def __init__(self, random: Random) -> None:
        super().__init__()
        self.width, self.length = random.randrange(5, 40), random.randrange(3, 20)
        size, both = random.randrange(8, 50), random.random() < 0.5
        layer = random.choice((nn.LSTM, nn.GRU, nn.RNN))
        self.layer = layer(
            self.width, size, random.randrange(1, 3), batch_first=True, bidirectional=both
        )
        self.classify = nn.Linear((1 + both) * size, random.randrange(3, 30))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.classify(self.layer(x)[0])

    def inputs(self) -> torch.Tensor:
        return torch.randn(2, self.length, self.width)


_UNARY: tuple[Callable[[torch.Tensor], torch.Tensor], ...] = (
    torch.tanh,
    torch.sigmoid,
    torch.erf,
    torch.sin,
    lambda x: torch.exp(-(x * x)),
    lambda x: torch.sqrt(torch.abs(x) + 0.25),
    lambda x: torch.log(x.abs() + 1.5),
    lambda x: x.clamp(-1.5, 1.25),
    lambda x: x.softmax(-1),
    lambda x: x - x.mean(-1, keepdim=True),
    lambda x: x / (1 + x.var(-1, keepdim=True, unbiased=False)),
    lambda x: x.cumsum(-1) / x.shape[-1],
    lambda x: F.pad(x, (1, 0))[..., :-1],
    lambda x: torch.cat((x[..., 3:], x[..., :3]), -1),
    lambda x: F.softplus(x),
    lambda x: x.flip(-1) / 3,
)
_BINARY: tuple[Callable[[torch.Tensor, torch.Tensor], torch.Tensor], ...] = (
    torch.add,
    torch.sub,
    torch.mul,
    torch.maximum,
    lambda x, y: x / (1 + y.abs()),
    lambda x, y: torch.where(x > y, x - y, 0.5 * (y - x)),  # no jump: it would multiply errors
)


class Elementwise(nn.Module):
    """Elementwise operators, reductions and moves of elements, and one product."""

    def __init__(self, random: Random) -> None:
        super().__init__()
        self.rows, self.width = random.randrange(2, 30), random.randrange(8, 120)
        self.product = nn.Linear(self.width, self.width)
        self.steps = [
            (random.choice(_UNARY), random.choice(_BINARY), random.random() < 0.5)
            for _ in range(random.randrange(3, 8))
        ]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        other = self.product(x)
        for unary, binary, swaps in self.steps:
            x, other = (other, x) if swaps else (x, other)
            x = binary(unary(x), other)
        return x

    def inputs(self) -> torch.Tensor:
        return torch.randn(3, self.rows, self.width)


KINDS: dict[str, Callable[[Random], nn.Module]] = {
    "convolutions": Convolutions,
    "perceptrons": Perceptron,
    "transformers": Transformer,
    "recurrent": Recurrent,
    "elementwise": Elementwise,
}


def draw(kind: str, seed: int, dtype: torch.dtype) -> tuple[nn.Module, torch.Tensor]:
    """Return a network of a kind, and an input of it, whose numbers are of a type.

    Parameters
    ----------
    kind : str
        One of ``KINDS``.
    seed : int
        What all is drawn from.
    dtype : torch.dtype
    """
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        network = KINDS[kind](Random(seed)).eval()
        for layer in network.modules():
            if isinstance(layer, nn.BatchNorm2d):
                nn.init.normal_(layer.running_mean, std=0.3)
                nn.init.uniform_(layer.running_var, 0.5, 2.0)
        return network.to(dtype), network.inputs().to(dtype)
