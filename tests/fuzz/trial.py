# SPDX-License-Identifier: Apache-2.0
"""One network, compiled in one way, compared with its reference."""

from __future__ import annotations

import os
import tempfile
import traceback
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import numpy as np
import tvm

from support.amx import emulation, unchecked
from tvm_ios.errors import ModelError
from tvm_ios.schedule import Schedule
from tvm_ios_runtime.model import Model

from .choices import random_choices
from .execute import compile_network, run_unscheduled
from .generate import random_network, random_of
from .layouts import laid_out
from .network import Network
from .open_sizes import OpenNetwork, with_open_sizes
from .open_trial import check_calls, compile_open
from .outcome import AGREES, DIFFERS, FAILS, FOREIGN, REFUSED, Outcome, Reduction
from .reference import FRONTS, Lenience, NoReference, Reference, Wrong, agree
from .specials import comparable, with_specials


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
        self.network = _reduced(random_network(seed), reduction)
        chosen = dict(reduction.chosen)
        self._variant = int(chosen.pop("variant", 0))
        self.choices = random_choices(random_of(seed, "choices")).but(**chosen)
        if self.network.jumps:  # where half precision may come out on the other side
            self.choices = self.choices.but(precision="fp32")
        self.open: OpenNetwork | None = None
        if self.choices.open and self.network.front == "onnx":
            self.open = with_open_sizes(self.network, seed)
        self._half = self.choices.options.precision == "bf16"
        self.schedule: Schedule | None = None
        self._served = "no sizes"
        self._reference = Reference(self.network, self.network.examples, half=self._half)
        self._results: list[np.ndarray] = []

    def run(self) -> Outcome:
        """Compile, run and compare."""
        with tempfile.TemporaryDirectory() as folder, self._debugged():
            status, detail = self._run(Path(folder))
        operators, kind = tuple(self.network.operators), self.network.kind
        if self.open is not None:
            kind = f"open, {self._served}"
        return Outcome(self.seed, status, detail, operators, str(self.choices), kind)

    @contextmanager
    def _debugged(self) -> Iterator[None]:
        """Let the network check its waits, delay its workers and emulate, if that was chosen."""
        debug = {"TVM_IOS_CHECK_WAITS": "1", "TVM_IOS_DELAYS": str(-1 - self.seed % 1000)}
        debug = debug if self.choices.checked else {}
        if self.choices.emulated or self._half:
            debug["TVM_IOS_EMULATE_INSTRUCTIONS"] = "1"
        os.environ.update(debug)
        with ExitStack() as stack:
            if self.choices.amx:
                stack.enter_context(emulation())
                stack.enter_context(unchecked())
            try:
                yield
            finally:
                for name in debug:
                    os.environ.pop(name, None)

    def _run(self, folder: Path) -> tuple[str, str]:
        if self.open is not None:
            return self._run_open(self.open, folder)
        try:
            random = random_of(self.seed, "writing")
            mod = FRONTS[self.network.front].module(self.network, folder, random)
        except ModelError as error:
            return REFUSED, str(error)
        try:
            random = random_of(self.seed, f"schedule {self._variant}")
            model, self.schedule = compile_network(mod, self.choices, random, folder)
            self._check(model)
            self._check_specials(model)
        except Wrong as error:
            return self._blame(mod, DIFFERS, str(error), error.output)
        except ModelError as error:
            return REFUSED, str(error)
        except NoReference as error:
            return FOREIGN, str(error)
        except Exception:
            return self._blame(mod, FAILS, traceback.format_exc())
        return AGREES, ""

    def _run_open(self, network: OpenNetwork, folder: Path) -> tuple[str, str]:
        """Compile the network for any sizes, and compare it at some."""
        random = random_of(self.seed, f"schedule {self._variant}")
        try:
            model = compile_open(network, self.choices, random, folder)
            answered, computed = check_calls(model, network, random, half=self._half)
        except Wrong as error:
            return DIFFERS, str(error)
        except ModelError as error:
            return REFUSED, str(error)
        except Exception:
            return FAILS, traceback.format_exc()
        self._served = f"{answered} of {computed} sizes"
        return AGREES, ""

    def _check(self, model: Model) -> None:
        """Call the model twice, with inputs that lie in memory in different ways."""
        examples = list(self.network.examples.values())
        results = self._call(model, examples)
        _check_memory(results, examples)
        for array in results:
            array[...] = 1  # they are the caller's: nothing else may change with them
        random = random_of(self.seed, "layouts")
        again = [laid_out(random, array) for array in examples]
        self._call(model, again)
        for array, example in zip(again, examples, strict=True):
            if not np.array_equal(array, example):
                raise Wrong("The model has written to an input.")

    def _check_specials(self, model: Model) -> None:
        """Call the model with what is no number, where that is compared."""
        if self._half or not comparable(self.network):
            return
        assert self.schedule is not None
        if any(stage.strategy == "merge" for stage in self.schedule.stages):
            lenient = Lenience.REPLACED
        else:
            lenient = Lenience.WINOGRAD if self.choices.options.winograd else Lenience.NONE
        inputs = with_specials(random_of(self.seed, "specials"), self.network.examples)
        self._reference = Reference(self.network, inputs, lenient)
        self._call(model, list(inputs.values()))

    def _call(self, model: Model, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
        self._results = model(*inputs)
        self._reference.check(self._results)
        return self._results

    def _blame(
        self, mod: tvm.IRModule, status: str, detail: str, output: str | None = None
    ) -> tuple[str, str]:
        """The finding, unless TVM's own lowering of the network fails, or computes the same."""
        try:
            results = run_unscheduled(mod, list(self._reference.inputs.values()))
        except Exception as error:  # whatever TVM trips over
            return (FOREIGN, str(error)) if status == FAILS else (status, detail)
        if status == DIFFERS and agree(self.network, self._results, results, output):
            return FOREIGN, detail
        return status, detail


def _reduced(network: Network, reduction: Reduction) -> Network:
    if reduction.cut:
        values = FRONTS[network.front].reference(network, network.examples)
        network = network.cut({name: values[name] for name in reduction.cut})
    return network.needed(reduction.outputs or network.outputs)


def _check_memory(results: Sequence[np.ndarray], inputs: Sequence[np.ndarray]) -> None:
    """Raise Wrong if a result lies where another one or an input does."""
    for i, array in enumerate(results):
        if any(np.shares_memory(array, other) for other in (*inputs, *results[:i])):
            raise Wrong(f"Result {i} shares its memory.")
