# SPDX-License-Identifier: Apache-2.0
"""Who takes part, and what each of them has to offer.

A contender is a module of this package with one function::

    prepare(task: Task) -> Runner

It is imported in the contender's own process alone, so that nothing of one is in the memory of
another.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

OURS = ("sequential", "greedy", "scheduled")
BARRIERS = "barriers"
"""The sequential schedule, after each operator of which all workers meet."""
AUTO = "auto"
"""What is scheduled, in bfloat16 as far as the default tolerance allows."""
COMPILED = (*OURS, BARRIERS, AUTO)
"""All that this project compiles."""


@dataclass(frozen=True)
class Contender:
    """An entry of the comparison.

    Attributes
    ----------
    title : str
        What tables call it.
    module : str
        Where its ``prepare`` is.
    packages : tuple of str
        The distributions that its figures depend on.
    settings : str
        How it is set up, for the record.
    torch : bool
        Whether torch can be imported in its process, see :mod:`peer.without_torch`.
    exact : bool
        Whether it computes in float32; others choose a precision by themselves.
    """

    title: str
    module: str
    packages: tuple[str, ...]
    settings: str
    torch: bool = True
    exact: bool = True


def _ours(name: str) -> Contender:
    return Contender(
        name,
        "peer.ours",
        ("tvm-ios", "apache-tvm", "apache-tvm-ffi"),
        "a library of tvm-ios compile, run by tvm_ios_runtime, without torch",
        torch=False,
        exact=name != AUTO,
    )


CONTENDERS = {
    **{name: _ours(name) for name in COMPILED},
    "onnxruntime": Contender(
        "ONNX Runtime",
        "peer.onnx_runtime",
        ("onnxruntime",),
        "all graph optimisations, sequential execution, intra_op_num_threads",
    ),
    "onnxruntime_parallel": Contender(
        "ONNX Runtime, parallel",
        "peer.onnx_runtime_parallel",
        ("onnxruntime",),
        "the same with parallel execution, inter_op_num_threads as intra_op_num_threads",
    ),
    "openvino": Contender(
        "OpenVINO",
        "peer.open_vino",
        ("openvino",),
        "CPU, LATENCY hint, one stream, inference_num_threads, inference precision f32",
    ),
    "openvino_default": Contender(
        "OpenVINO, default",
        "peer.open_vino_default",
        ("openvino",),
        "CPU, LATENCY hint, one stream, inference_num_threads, its own inference precision",
        exact=False,
    ),
    "torch": Contender(
        "torch.compile",
        "peer.torch_compile",
        ("torch", "onnx"),
        "inductor in its default mode with frozen weights, no_grad, set_num_threads",
    ),
}
PEERS = tuple(name for name in CONTENDERS if name not in COMPILED)

PEAK = Contender(
    "multiply-adds", "peer.multiply_adds", ("apache-tvm",), "vector multiply-adds", torch=False
)
REFERENCE = Contender(
    "reference", "peer.onnx_reference", ("onnxruntime",), "ONNX Runtime without optimisations"
)


@dataclass(frozen=True)
class Task:
    """What a contender is to run.

    Attributes
    ----------
    model : str
        An ONNX file with static shapes; for ours the library compiled from it.
    inputs : dict of str to numpy.ndarray
        By the model's names, in its order.
    threads : int
    """

    model: str
    inputs: dict[str, np.ndarray]
    threads: int


@dataclass(frozen=True)
class Runner:
    """A network, ready to run.

    Attributes
    ----------
    run : callable
        One inference from the inputs to outputs that are complete when it returns.
    arrays : callable
        The outputs of ``run`` in the order of the model.
    flops : int or None
        Operations of one run, where it is not the network's to say.
    precision : str
        What it says that it computes in.
    """

    run: Callable[[], Any]
    arrays: Callable[[Any], list[np.ndarray]]
    flops: int | None = None
    precision: str = "f32"
