# SPDX-License-Identifier: Apache-2.0
"""Random modules go through both forms unchanged; damaged ones are refused, or are networks."""

from __future__ import annotations

import contextlib
import json
import random
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.relay.bounded import load_bounded
from support.relay.json_document import to_json
from support.relay.random_modules import damaged, random_module, with_strange_numbers
from support.relay.text import NAMES_IN_JSON, SAMPLES, assert_same
from tvm_ios.errors import RelayError
from tvm_ios.relay import parse, to_text
from tvm_ios.relay.convert import convert
from tvm_ios.relay.lexer import tokenize
from tvm_ios.relay.source import Source

SEEDS = st.integers(0, 2**32)
SMALL = [(SAMPLES / f"{name}.relay").read_text() for name in ("branches", "functions", "mlp")]
SMALL_JSON = [(SAMPLES / f"{name}.json").read_text() for name in NAMES_IN_JSON[:4]]


def check_refused_or_module(text: str) -> None:
    """A text is refused, or is a module that can be written and read again."""
    try:
        module = parse(text)
    except RelayError:
        return
    assert_same(parse(to_text(module)), module)
    with contextlib.suppress(RelayError):
        convert(module)


def check_refused_or_graph(text: str) -> None:
    """JSON is refused, or is a module; its names may be none that text can have."""
    try:
        module = parse(text)
    except RelayError:
        return
    with contextlib.suppress(RelayError):
        written = to_text(module)
        assert_same(parse(written), module)
    with contextlib.suppress(RelayError):
        convert(module)


def damaged_graph(seed: int) -> str:
    """JSON with nodes of other types, which refer to others than they did."""
    text = SMALL_JSON[seed % len(SMALL_JSON)]
    source = random.Random(seed)
    document = json.loads(text)
    for _ in range(source.randint(1, 3)):
        node = source.choice(document["nodes"])
        for field in ("attrs", "data"):
            if node.get(field):
                key = source.choice(
                    list(node[field]) if field == "attrs" else range(len(node[field]))
                )
                number = source.randint(-1, len(document["nodes"]))
                node[field][key] = str(number) if field == "attrs" else number
        if source.random() < 0.3:
            node["type_key"] = source.choice(document["nodes"])["type_key"]
    return json.dumps(document, indent=1)


@settings(max_examples=150, deadline=None, derandomize=True)
@given(SEEDS)
def test_what_is_written_is_read_unchanged(seed: int) -> None:
    module = random_module(seed)
    text = to_text(module)
    again = parse(text)
    assert_same(module, again)
    assert to_text(again) == text


@settings(max_examples=100, deadline=None, derandomize=True)
@given(SEEDS)
def test_both_forms_say_the_same(seed: int) -> None:
    module = random_module(seed, plain=True)
    read = parse(to_json(module))
    assert_same(module, read)
    assert to_text(read) == to_text(module)


@settings(max_examples=300, deadline=None, derandomize=True)
@given(SEEDS)
def test_damaged_text(seed: int) -> None:
    text = SMALL[seed % 4] if seed % 4 < len(SMALL) else to_text(random_module(seed))
    check_refused_or_module('#[version = "0.0.5"]\n' + damaged(text.partition("\n")[2], seed))
    check_refused_or_module(damaged(text, seed) + "\n")


@settings(max_examples=150, deadline=None, derandomize=True)
@given(SEEDS)
def test_damaged_json(seed: int) -> None:
    text = SMALL_JSON[seed % len(SMALL_JSON)]
    check_refused_or_graph("{\n" + damaged(text, seed).lstrip("{\n"))
    check_refused_or_graph(damaged_graph(seed))


@settings(max_examples=150, deadline=None, derandomize=True)
@given(SEEDS)
def test_numbers_that_do_not_fit(seed: int) -> None:
    check_refused_or_module(with_strange_numbers(SMALL[seed % len(SMALL)], seed))


@pytest.mark.slow
def test_damaged_files_take_little(tmp_path: Path) -> None:
    """In processes that end where they take too much memory or time."""
    texts = {f"graph {seed}": damaged_graph(seed) for seed in range(60)}
    texts |= {f"text {seed}": damaged(SMALL[seed % len(SMALL)], seed) + "\n" for seed in range(60)}
    texts |= {
        f"numbers {seed}": with_strange_numbers(SMALL[seed % len(SMALL)], seed)
        for seed in range(60)
    }
    outcomes = load_bounded(texts, tmp_path)
    assert len(outcomes) == len(texts)
    strange = {
        name: said
        for name, said in outcomes.items()
        if said != "module" and not said.startswith(("RelayError: ", "ExpansionError: "))
    }
    assert strange == {}


@settings(max_examples=15, deadline=None, derandomize=True)
@given(SEEDS)
def test_no_word_is_passed_over(seed: int) -> None:
    """A text without one of its words is refused, or says something else."""
    text = to_text(random_module(seed, size=4))
    for word in tokenize(Source("", text)).tokens[:-1]:
        rest = text[: word.offset] + text[word.offset + max(len(word.text), 1) :]
        if word.kind == "," and text[word.offset + 1] == ")":  # (A,) and (A) are one type
            continue
        with contextlib.suppress(RelayError):
            assert to_text(parse(rest)) != text
