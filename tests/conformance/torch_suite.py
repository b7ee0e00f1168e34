# SPDX-License-Identifier: Apache-2.0
"""PyTorch's own samples of calls of its operators (OpInfo): the first few of each."""

from __future__ import annotations

import random
from collections.abc import Collection, Iterator, Sequence
from functools import cache, partial
from itertools import islice
from typing import Any
from unittest import mock

import numpy as np
import torch

import tvm_ios

from .outcome import LEFT_OUT, Outcome, combined
from .suites import FORMS, TORCH
from .torch_sample import Call, NoSingleAnswer, answer, answer_by_float32, difference
from .trial import tried

with mock.patch("torch.backends.disable_global_flags"):  # which other tests of a process set
    from torch.testing._internal.common_methods_invocations import op_db

_TYPES = {form: getattr(torch, form) for form in FORMS[TORCH]}
_TOLERANCES = {"float32": (1e-4, 1e-5), "float16": (1e-2, 1e-3)}
_MOST_SAMPLES = {"float32": 5, "float16": 2}
"""What takes a quarter of an hour on two cores."""
_UNDEFINED = {
    "empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided",
}  # fmt: skip
"""Operators that return memory as it happens to be."""
_TIED = {"argsort", "sort"}
"""Operators that may order equal numbers in any way; of 16 bits there are such."""


@cache
def _operators() -> dict[str, Any]:
    """Return the operators by name, with the variant if there are several of one."""
    defined = [operator for operator in op_db if operator.name not in _UNDEFINED]
    return {"/".join(filter(None, (o.name, o.variant_test_name))): o for o in defined}


def names(form: str) -> Collection[str]:
    """Return the names of the operators that take numbers of a type."""
    unclear = _TIED if form == "float16" else ()
    return [
        name
        for name, operator in _operators().items()
        if _TYPES[form] in operator.dtypes and name not in unclear
    ]


def outcome_of(name: str, form: str) -> Outcome:
    """Return what comes of an operator's samples."""
    try:
        calls = list(islice(_calls(_operators()[name], _TYPES[form]), _MOST_SAMPLES[form]))
    except Exception as error:  # of samples for devices that are not there
        return Outcome(LEFT_OUT, f"there are no samples: {error}")
    return combined([_outcome_of_call(call, form) for call in calls])


def _calls(operator: Any, dtype: torch.dtype) -> Iterator[Call]:
    """Return the samples of an operator, always the same."""
    random.seed(0)
    np.random.seed(0)
    torch.manual_seed(0)
    samples = operator.sample_inputs(torch.device("cpu"), dtype, requires_grad=False)
    return (Call(operator.op, (s.input, *s.args), s.kwargs) for s in samples)


def _outcome_of_call(call: Call, form: str) -> Outcome:
    try:
        wanted = _answers(call, form)
    except NoSingleAnswer as error:
        return Outcome(LEFT_OUT, str(error))
    return tried(partial(_run, call), partial(_wrong, wanted=wanted, form=form))


def _answers(call: Call, form: str) -> list[list[torch.Tensor]]:
    """Return PyTorch's results, which overflow or are rounded in between if they have 16 bits."""
    return [answer(call), *([answer_by_float32(call)] if form == "float16" else [])]


def _wrong(results: Sequence[Any], wanted: list[list[torch.Tensor]], form: str) -> str:
    """Return what is wrong with results that are none of the answers."""
    said = [difference(results, answers, *_TOLERANCES[form]) for answers in wanted]
    return said[0] if all(said) else ""


def _run(call: Call) -> Any:
    compiled = tvm_ios.compile(call, call.inputs(), search=False, threads=1)
    return compiled(*call.inputs())
