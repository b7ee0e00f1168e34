# SPDX-License-Identifier: Apache-2.0
"""What the attributes of a recurrent layer say."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ....ops.recurrent_step import ACTIVATIONS
from ..node_emitter import NodeEmitter

_DIRECTIONS = {"forward": 1, "reverse": 1, "bidirectional": 2}

_READS = {
    "affine": ("alpha", "beta"),
    "elu": ("alpha",),
    "hardsigmoid": ("alpha", "beta"),
    "leakyrelu": ("alpha",),
    "scaledtanh": ("alpha", "beta"),
    "thresholdedrelu": ("alpha",),
}
"""The parameters of the activations that have some."""

_DEFAULTS = {
    ("elu", "alpha"): 1.0,
    ("hardsigmoid", "alpha"): 0.2,
    ("hardsigmoid", "beta"): 0.5,
    ("leakyrelu", "alpha"): 0.01,
}
"""Those on which ONNX's operators and ONNX Runtime agree."""


@dataclass(frozen=True)
class Form:
    """What attributes say of a layer.

    Attributes
    ----------
    direction : "forward", "reverse" or "bidirectional"
    activations : sequence of str
        Of each direction, one after the other.
    parameters : sequence of (float, float)
        The alpha and beta of each activation; none if no activation has any.
    clip : float or None
    batch_first, reset_after, coupled : bool
    """

    direction: str
    activations: Sequence[str]
    parameters: Sequence[tuple[float, float]]
    clip: float | None
    batch_first: bool
    reset_after: bool
    coupled: bool

    @property
    def directions(self) -> int:
        return _DIRECTIONS[self.direction]

    def of(self, direction: int) -> dict[str, Any]:
        """Return what a direction computes."""
        share = len(self.activations) // self.directions
        own = slice(direction * share, (direction + 1) * share)
        return {
            "activations": tuple(self.activations[own]),
            "parameters": tuple(self.parameters[own]),
            "clip": self.clip,
            "coupled": self.coupled,
            "backwards": self.direction == "reverse" or direction == 1,
            "batch_first": self.batch_first,
            "reset_after": self.reset_after,
        }


def form_of(
    emit: NodeEmitter,
    defaults: Sequence[str],
    *,
    coupled: bool = False,
    reset_after: bool = False,
    activation_alpha: Sequence[float] | None = None,
    activation_beta: Sequence[float] | None = None,
    activations: Sequence[str] | None = None,
    clip: float | None = None,
    direction: str = "forward",
    layout: int = 0,
) -> Form:
    """Return what attributes say, or raise ModelError.

    Parameters
    ----------
    emit : NodeEmitter
    defaults : sequence of str
        The activations of a direction.
    coupled, reset_after : bool
    activation_alpha, activation_beta, activations, clip, direction, layout
        As in ONNX.
    """
    if direction not in _DIRECTIONS:
        raise emit.error(f"has the direction {direction!r}, which is not known.")
    if clip is not None and not clip > 0:
        raise emit.error(f"has a clip of {clip}, which must be positive.")
    count = len(defaults) * _DIRECTIONS[direction]
    names = _named(emit, activations or [*defaults] * _DIRECTIONS[direction], count)
    alphas = _parameters(emit, names, "alpha", activation_alpha or ())
    betas = _parameters(emit, names, "beta", activation_beta or ())
    parameters = list(zip(alphas, betas, strict=True)) if _READS.keys() & set(names) else []
    return Form(direction, names, parameters, clip, bool(layout), reset_after, coupled)


def _named(emit: NodeEmitter, activations: Sequence[str], count: int) -> list[str]:
    """Return the names of activations as ours, whose case does not matter to ONNX Runtime."""
    if len(activations) != count:
        raise emit.error(f"has {len(activations)} activations, but needs {count}.")
    unknown = [name for name in activations if name.lower() not in ACTIVATIONS]
    if unknown:
        raise emit.error(f"has the activation {unknown[0]!r}, which is not known.")
    return [name.lower() for name in activations]


def _parameters(
    emit: NodeEmitter, activations: Sequence[str], name: str, given: Sequence[float]
) -> list[float]:
    """Return a parameter of each activation; those that read it take the given ones in order."""
    left, found = list(given), []
    for activation in activations:
        if name not in _READS.get(activation, ()):
            found.append(0.0)
        elif left:
            found.append(float(left.pop(0)))
        elif (activation, name) in _DEFAULTS:
            found.append(_DEFAULTS[activation, name])
        else:
            raise emit.error(
                f"leaves the {name} of {activation} open, on which implementations differ; set "
                f"activation_{name}."
            )
    if left:
        read = len(given) - len(left)
        raise emit.error(
            f"has {len(given)} numbers in activation_{name}, of which its activations read {read}."
        )
    return found
