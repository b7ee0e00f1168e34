# SPDX-License-Identifier: Apache-2.0
"""Whatever a schedule, a line of measurements or an argument says: it is read, or refused."""

from __future__ import annotations

import argparse
import copy
import json
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tvm import relax

from support.database import HERE, key
from support.networks import NATIVE, constant, conv, few_stages, relax_module
from tvm_ios.cli.options import batch_sizes, input_shapes, search_options
from tvm_ios.compiler.scheduler import Scheduler
from tvm_ios.database import MeasurementDatabase
from tvm_ios.database.row import from_line, to_line
from tvm_ios.draw import svg
from tvm_ios.errors import DatabaseError, OptionError, ScheduleError
from tvm_ios.schedule import Schedule, Speedup

NUMBERS = st.integers() | st.floats() | st.sampled_from([10**400, 2**63, -1, 0, 1e308])
TEXTS = st.text(max_size=8) | st.sampled_from(["tiles", "merge", "strips", "streams-3", "none"])
JSON = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=6,
)


def places(value: Any, path: tuple = ()) -> Iterator[tuple]:
    """The ways to all parts of what JSON holds, but to the whole."""
    parts = value.items() if isinstance(value, dict) else enumerate(value)
    for index, part in parts:
        yield (*path, index)
        if isinstance(part, (dict, list)):
            yield from places(part, (*path, index))


@st.composite
def damaged(draw: st.DrawFn, data: dict[str, Any]) -> Any:
    """``data`` with some of its parts left out, put twice, or written otherwise."""
    data = copy.deepcopy(data)
    for _ in range(draw(st.integers(1, 3))):
        found = list(places(data))
        if not found:
            break
        *variant, last = draw(st.sampled_from(found))
        owner = data
        for index in variant:
            owner = owner[index]
        change = draw(st.sampled_from(["drop", "write", "write", "repeat"]))
        if change == "drop":
            del owner[last]
        elif change == "repeat" and isinstance(owner, list):
            owner.append(copy.deepcopy(owner[last]))
        else:
            owner[last] = draw(JSON)
    return data


def _network() -> Scheduler:
    def body(emit, x):
        arms = [emit(conv(x, 8)), emit(conv(x, 16, 1)), emit(relax.op.nn.relu(x))]
        return emit(relax.op.add(emit(relax.op.concat(arms, axis=1)), constant(1, 28, 1, 1)))

    return Scheduler.prepare(relax_module(body, (1, 4, 5, 5)), NATIVE, cost_model=few_stages)


SCHEDULER = _network()
SPEEDUP = Speedup(1.07, 1.05, 1.09)
SCHEDULE = json.loads(replace(SCHEDULER.search(), speedup=SPEEDUP).to_json())


@settings(max_examples=300, deadline=None)
@given(damaged(SCHEDULE) | JSON)
def test_schedules(data: Any) -> None:
    """What is read is written as it was, and is drawn and applied, or refused."""
    try:
        schedule = Schedule.from_dict(data)
    except ScheduleError:
        return
    assert Schedule.from_dict(json.loads(json.dumps(schedule.to_dict()))) == schedule
    assert repr(schedule)
    assert schedule.speedup is None or schedule.speedup.low <= schedule.speedup.high
    with suppress(ScheduleError):
        assert svg([schedule]).startswith("<svg")
    try:
        SCHEDULER.check(schedule)
        SCHEDULER.lower(schedule)
    except ScheduleError:
        return
    assert sorted(op for stage in schedule.stages for op in stage.operators) == sorted(
        op.name for op in SCHEDULER.graph.operators
    )


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_files_of_schedules(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    """Bytes are changed, left out and added."""
    content = bytearray(json.dumps(SCHEDULE).encode())
    for _ in range(data.draw(st.integers(1, 4))):
        begin = data.draw(st.integers(0, len(content)))
        end = data.draw(st.integers(begin, min(len(content), begin + 40)))
        content[begin:end] = data.draw(st.binary(max_size=4))
    path = tmp_path_factory.getbasetemp() / "damaged.json"
    path.write_bytes(content)
    with suppress(ScheduleError):
        Schedule.load(path)


@pytest.fixture(scope="module")
def line(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    with closing(MeasurementDatabase(tmp_path_factory.mktemp("db") / "m.sqlite3")) as database:
        database.add(HERE, key("a"), "conv → max | conv", {"groups": [1e-5], "tiles": [1e-4]})
        (row,) = database.rows()
        return json.loads(to_line(row))


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_lines_of_measurements(
    tmp_path_factory: pytest.TempPathFactory, line: dict[str, Any], data: st.DataObject
) -> None:
    """What is read is stored, and read again as it was."""
    text = json.dumps(data.draw(damaged(line) | JSON))
    if data.draw(st.booleans()):
        cut = data.draw(st.integers(0, len(text)))
        text = text[:cut] + data.draw(st.text(max_size=3)) + text[cut:]
    path = tmp_path_factory.getbasetemp() / "lines.sqlite3"
    path.unlink(missing_ok=True)
    with closing(MeasurementDatabase(path)) as database:
        try:
            row = from_line(text, "Line 1")
        except DatabaseError:
            return
        assert database.insert([row]) == 1
        assert list(database.rows()) == [row]


SHAPES = st.lists(
    st.tuples(st.text(max_size=6), st.lists(st.integers(-3, 10**30), max_size=4)), max_size=3
).map(lambda pairs: ",".join(f"{name}:{sizes}" for name, sizes in pairs))


@settings(max_examples=300, deadline=None)
@given(SHAPES | st.text(alphabet="ax:[],1230 -²٣\n", max_size=24))
@example("x:[1,²]")
@example("[]")
@example("[3],x:[4]")
def test_shapes(text: str) -> None:
    """As they were written, or refused as an argument is; a single input needs no name."""
    try:
        shapes = input_shapes(text)
    except (argparse.ArgumentTypeError, ValueError):
        return
    assert all(size > 0 for sizes in shapes.values() for size in sizes)
    again = ",".join(
        f"{name}:{list(sizes)}" if name else str(list(sizes)) for name, sizes in shapes.items()
    )
    assert input_shapes(again) == shapes


@settings(max_examples=200, deadline=None)
@given(st.text(alphabet="0123456789,- ²_", max_size=16))
def test_batch_sizes(text: str) -> None:
    try:
        sizes = batch_sizes(text)
    except (argparse.ArgumentTypeError, ValueError):
        return
    assert all(size > 0 for size in sizes)
    assert len(set(sizes)) == len(sizes) > 0


NAMES = st.sampled_from(
    ["max_group_size", "max_num_groups", "max_block_size", "coverage", "lcb_factor", "x"]
)
VALUES = st.text(max_size=6) | st.integers().map(str) | st.floats().map(str) | st.just("none")


@settings(max_examples=300, deadline=None)
@given(st.lists(st.builds("{}={}".format, NAMES, VALUES) | st.text(max_size=8), max_size=3))
@example(["max_group_size=²"])
def test_options(pairs: list[str]) -> None:
    try:
        options = search_options(pairs)
    except OptionError:
        return
    assert options.max_block_size >= 1
    assert 0.5 <= options.coverage <= 0.99
