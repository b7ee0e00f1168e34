# SPDX-License-Identifier: Apache-2.0
"""A small network in PyTorch."""

from __future__ import annotations

import torch

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


def image(seed: int = 1, batch: int = SHAPE[0]) -> torch.Tensor:
    shape = (batch, *SHAPE[1:])
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))
