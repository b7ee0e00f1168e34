# SPDX-License-Identifier: Apache-2.0
"""Rounds, each of which starts a process, kills it and looks at what is left."""

from __future__ import annotations

import os
import pickle
import random
import shutil
import traceback
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from . import network
from .actions import ACTIONS, Action
from .process import Death, End, run
from .state import State, check_change, leftovers, look

_LATE = 1.05  # of a life, in which a process is killed; some are done by then
_BY_OPERATION = 0.4  # of the deaths
_LEFT = 12  # entries that processes that were killed may leave


@dataclass
class Campaign:
    """Rounds in one folder, whose files are those that the rounds before have left.

    Attributes
    ----------
    root : Path
    seed : int
    names : sequence of str
        Of actions.
    deaths : dict of str to Counter
        Places in the product, by action.
    phases : Counter
        Tenths of a life.
    failures : list of str
    """

    root: Path
    seed: int
    names: Sequence[str] = tuple(ACTIONS)
    deaths: dict[str, Counter[str]] = field(default_factory=dict)
    phases: Counter[int] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)
    _lives: dict[str, End] = field(default_factory=dict)
    _state: State = field(default_factory=lambda: State({}, {}))

    def __post_init__(self) -> None:
        for directory in (self.files, self.inputs, self.notes, self.temporary, self.caches):
            directory.mkdir(parents=True, exist_ok=True)
        os.environ |= {"TMPDIR": str(self.temporary), "XDG_CACHE_HOME": str(self.caches)}

    @property
    def files(self) -> Path:
        return self.root / "files"

    @property
    def inputs(self) -> Path:
        return self.root / "inputs"

    @property
    def notes(self) -> Path:
        return self.root / "notes"

    @property
    def temporary(self) -> Path:
        return self.root / "temporary"

    @property
    def caches(self) -> Path:
        return self.root / "caches"

    def complete_all(self, label: str) -> None:
        """Run every action to its end, after which nothing is left that is nobody's."""
        for name in self.names:
            end = self._round(f"{label} {name}", name, Death())
            self._lives[name] = end
        left = [*leftovers(self.files), *os.listdir(self.temporary)]
        if left:
            self.failures.append(f"{label}: {left} are left when all is done")

    def round(self, number: int) -> None:
        """Kill one process."""
        choose = random.Random(f"{self.seed}/{number}/death")
        (name,) = choose.choices(self.names, [ACTIONS[name][1] for name in self.names])
        life = self._lives[name]
        if choose.random() < _BY_OPERATION:
            death = Death(operation=choose.randint(1, life.operations))
        else:
            death = Death(seconds=choose.uniform(0.0, _LATE * life.seconds))
        self._round(str(number), name, death)

    def _round(self, number: str, name: str, death: Death) -> End:
        choose = random.Random(f"{self.seed}/{number}")
        made = network.save(self.inputs / "network.onnx", choose)
        action = ACTIONS[name][0](made, choose, self.inputs)
        before = self._state
        end = run(action.run, self.files, self.notes, death, name.startswith("db"))
        what = f"round {number} ({name}, killed {death}, in {end.place})"
        if end.killed:
            self.deaths.setdefault(name, Counter())[end.place] += 1
            self.phases[min(9, int(10 * end.seconds / self._lives[name].seconds))] += 1
        elif end.status != 0:
            self.failures.append(f"{what} ended with {end.status}: {end.log}")
        elif leftovers(self.files):
            self.failures.append(f"{what} has left {leftovers(self.files)}")
        try:
            self._state = self._look(before, action)
            left = [*leftovers(self.files), *os.listdir(self.temporary)]
            assert len(left) <= _LEFT, f"{left} are left"
        except AssertionError as error:
            self.failures.append(f"{what}: {error}")
            self._keep(number)
            self._state = self._look(None, None)
        return end

    def _look(self, before: State | None, action: Action | None) -> State:
        """What is in the folder, found by another process, as this one must not run models."""
        found = self.notes / "state"

        def check() -> int:
            try:
                state = look(self.files)
                if before is not None:
                    check_change(before, state, action, self.files)
            except Exception:
                traceback.print_exc()
                return 1
            found.write_bytes(pickle.dumps(state))
            return 0

        end = run(check, self.root, self.notes, Death())
        assert end.status == 0, end.log
        return pickle.loads(found.read_bytes())

    def _keep(self, number: str) -> None:
        """Keep the folder as it was found, beside it."""
        shutil.copytree(self.root, f"{self.root}.round-{number.replace(' ', '-')}")

    def report(self) -> str:
        """Where the processes died, as lines."""
        lines = [
            "life  " + "  ".join(f"{10 * k}% {self.phases[k]}" for k in range(10)),
        ]
        for name, places in self.deaths.items():
            told = ", ".join(f"{place} {count}" for place, count in places.most_common())
            lines.append(f"{name}: {places.total()} killed, in {told}")
        return "\n".join(lines)
