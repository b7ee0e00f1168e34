# SPDX-License-Identifier: Apache-2.0
"""One network, compiled in one way, compared with its reference."""

from __future__ import annotations

import tempfile
import traceback
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path

import numpy as np
import tvm

from tvm_ios.errors import ModelError
from tvm_ios.schedule import Schedule
from tvm_ios_runtime.model import Model

from . import onnx_front, relax_front
from .choices import random_choices
from .compare import difference
from .execute import compile_network, run_unscheduled
from .generate import random_network, random_of
from .inputs import laid_out
from .network import Network
from .outcome import AGREES, DIFFERS, FAILS, FOREIGN, REFUSED, Outcome, Reduction

FRONTS = {"onnx": onnx_front, "relax": relax_front}


class Wrong(Exception):
    """A result that is not what it should be."""


class Trial:
    """A network and the way to compile it, of a seed.

    Parameters
    ----------
    seed : int
    reduction : Reduction, optional
    """

    def __init__(self, seed: int, reduction: Reduction | None = None) -> None:
        reduction = reduction or Reduction()
        self.seed = seed
        self.network = self._reduced(random_network(seed), reduction)
        chosen = dict(reduction.chosen)
        self._variant = int(chosen.pop("variant", 0))
        self.choices = random_choices(random_of(seed, "choices")).but(**chosen)
        self.schedule: Schedule | None = None

    @staticmethod
    def _reduced(network: Network, reduction: Reduction) -> Network:
        if reduction.cut:
            values = FRONTS[network.front].reference(network, network.examples)
            network = network.cut({name: values[name] for name in reduction.cut})
        return network.needed(reduction.outputs or network.outputs)

    @cached_property
    def reference(self) -> dict[str, np.ndarray]:
        """All values in the network's own types."""
        return FRONTS[self.network.front].reference(self.network, self.network.examples)

    @cached_property
    def _double(self) -> dict[str, np.ndarray] | None:
        """All values in double precision; None where that cannot be had."""
        try:
            front = FRONTS[self.network.front]
            return front.double_reference(self.network, self.network.examples)
        except Exception:  # another implementation's
            return None

    def run(self) -> Outcome:
        """Compile, run and compare."""
        with tempfile.TemporaryDirectory() as folder:
            status, detail = self._run(Path(folder))
        operators = tuple(self.network.operators)
        return Outcome(self.seed, status, detail, operators, str(self.choices))

    def _run(self, folder: Path) -> tuple[str, str]:
        try:
            mod = FRONTS[self.network.front].module(self.network, folder)
        except ModelError as error:
            return REFUSED, str(error)
        try:
            random = random_of(self.seed, f"schedule {self._variant}")
            model, self.schedule = compile_network(mod, self.choices, random, folder)
            self._check(model)
        except Wrong as error:
            return self._blame(mod, DIFFERS, str(error))
        except ModelError as error:
            return REFUSED, str(error)
        except Exception:
            return self._blame(mod, FAILS, traceback.format_exc())
        return AGREES, ""

    def _check(self, model: Model) -> None:
        """Call the model several times, with inputs that lie in memory in several ways."""
        random = random_of(self.seed, "layouts")
        examples = list(self.network.examples.values())
        results = model(*examples)
        self._compare(results)
        _check_memory(results, examples)
        for array in results:
            if array.size:
                array[...] = 1  # they are the caller's: nothing else may change with them
        again = [laid_out(random, array) for array in examples]
        self._compare(model(*again))
        for array, example in zip(again, examples, strict=True):
            if not np.array_equal(array, example, equal_nan=array.dtype.kind == "f"):
                raise Wrong("The model has written to an input.")

    def _compare(self, results: Sequence[np.ndarray]) -> None:
        if len(results) != len(self.network.outputs):
            raise Wrong(f"{len(results)} results, not {len(self.network.outputs)}")
        terms = self.network.terms
        for name, actual in zip(self.network.outputs, results, strict=True):
            double = self._value_in_double(name)
            wrong = difference(actual, self.reference[name], terms, double)
            if wrong:
                raise Wrong(f"{name}: {wrong}")

    def _value_in_double(self, name: str) -> Callable[[], np.ndarray | None]:
        return lambda: None if self._double is None else self._double[name]

    def _blame(self, mod: tvm.IRModule, status: str, detail: str) -> tuple[str, str]:
        """The finding, unless TVM's own lowering of the network fails alike."""
        try:
            results = run_unscheduled(mod, list(self.network.examples.values()))
            self._compare(results)
        except Wrong as error:
            return (FOREIGN, str(error)) if status == DIFFERS else (status, detail)
        except Exception as error:
            if status == FAILS:
                return FOREIGN, str(error)
        return status, detail


def _check_memory(results: Sequence[np.ndarray], inputs: Sequence[np.ndarray]) -> None:
    """Raise Wrong if a result lies where another one or an input does."""
    for i, array in enumerate(results):
        if any(np.shares_memory(array, other) for other in (*inputs, *results[:i])):
            raise Wrong(f"Result {i} shares its memory.")
