# SPDX-License-Identifier: Apache-2.0
"""Complex numbers and Fourier transforms inside of PyTorch's networks."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import fft, view_as_real

from support.torch_functions import Function, assert_same
from tvm_ios.errors import ModelError
from tvm_ios.frontend.pytorch import from_module

SHAPE = (2, 6, 7, 10)
WEIGHT = torch.randn(7, 6, dtype=torch.complex64, generator=torch.Generator().manual_seed(1))
TURNS = torch.polar(torch.ones(7, 5), torch.arange(35.0).reshape(7, 5))
WINDOW = torch.hann_window(32)


def _spectra(norm: str | None) -> Callable[[torch.Tensor], list[torch.Tensor]]:
    """Transforms of one and several axes, in both directions, to other sizes, too."""
    return lambda x: [
        view_as_real(fft.fft(x, norm=norm)),
        view_as_real(fft.rfft2(x, norm=norm)),
        view_as_real(fft.ifft(fft.fft(x), dim=1, norm=norm)),
        view_as_real(fft.ihfft(x, norm=norm).resolve_conj()),
        fft.irfft(fft.rfft(x), 9, norm=norm),
        fft.irfft2(x, s=(5, 12), norm=norm),
        fft.hfft2(x, s=(3, 5), norm=norm),
    ]


def _filtered(x: torch.Tensor) -> torch.Tensor:
    """Keep some frequencies, as a Fourier neural operator does."""
    spectrum = fft.rfft2(x)
    kept = torch.zeros_like(spectrum)
    kept[..., :3, :3] = spectrum[..., :3, :3] * (1 + 2j)
    kept[..., -2:, :3] = spectrum[..., -2:, 1:4] * WEIGHT[-2:, :3]
    kept[:, 0] = spectrum[:, 1]
    return fft.irfft2(kept, s=x.shape[-2:])


def _sums(x: torch.Tensor) -> torch.Tensor:
    """Arithmetic with real and complex numbers, and with tensors of several shapes."""
    z = fft.rfft(x)
    parts = torch.cat([z[:, 1:, 0], 2j * z[:, :2, 1].conj(), -z[:, [1], 3] / 2], 1)
    moved = fft.fftshift(parts) + 1 - 3 * parts + z[:, :1, 0].expand(2, 8, 6).abs()
    return view_as_real((moved * x[0, 0, 0, :6] + (2 - 1j)).sum(1))


FUNCTIONS: dict[str, Callable[[torch.Tensor], object]] = {
    "numbers in order": _spectra(None),
    "scaled by the root": _spectra("ortho"),
    "scaled ahead": _spectra("forward"),
    "a filter": _filtered,
    "sums": _sums,
    "a product of matrices": lambda x: fft.irfft2(
        torch.einsum("bixy,io->boxy", fft.rfft2(x), WEIGHT[:6, :3]), s=(7, 10)
    ),
    "mixed tokens": lambda x: fft.fft(fft.fft(x, dim=-1), dim=-2).real,
    "a spectrogram": lambda x: (
        torch.stft(x.flatten()[None], 32, 9, window=WINDOW, return_complex=True).abs() ** 2
    ),
    "windows without a centre": lambda x: view_as_real(
        torch.stft(
            x.flatten(), 32, center=False, normalized=True, onesided=False, return_complex=True
        )
    ),
    "turned pairs": lambda x: view_as_real(
        torch.view_as_complex(x.reshape(2, 6, 7, 5, 2)) * TURNS
    ).flatten(3),
    "sizes and angles": lambda x: [fft.rfft(x).abs(), fft.rfft(x).angle()],
    "numbers of parts": lambda x: view_as_real(torch.polar(x, x) + torch.complex(x, x.sin())),
    "float64": lambda x: view_as_real(fft.fft(x.double())),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_complex_numbers(name: str) -> None:
    torch.manual_seed(0)
    assert_same(FUNCTIONS[name], torch.randn(SHAPE), rtol=1e-4, atol=2e-5)


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (fft.fft, "returns complex numbers"),
        (lambda x: fft.fft(x).exp().abs(), "exp"),
        (lambda x: fft.rfft(x) == fft.rfft(x), "eq"),
        (lambda x: (fft.rfft(x) / fft.rfft(x)).abs(), "divides by complex"),
    ],
)
def test_refused(function: Callable, reason: str) -> None:
    with pytest.raises(ModelError, match=reason):
        from_module(Function(function), [torch.randn(2, 3, 5)])


def test_complex_inputs_are_refused() -> None:
    with pytest.raises(ModelError, match="complex64"):
        from_module(Function(torch.abs), [torch.randn(3, dtype=torch.complex64)])
