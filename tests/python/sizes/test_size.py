# SPDX-License-Identifier: Apache-2.0
"""What is computed with open sizes, proven of them, and required of them."""

from __future__ import annotations

import threading

import pytest
from tvm import tirx

from tvm_ios.sizes.arithmetic import largest, require_equal, require_least, smallest, without_common
from tvm_ios.sizes.branches import assumes_more, assuming_inside, renamed
from tvm_ios.sizes.examples import OtherExample
from tvm_ios.sizes.ratio import NotExact, SingleRatio
from tvm_ios.sizes.size import OpenSizes, decide_equal, hint_of, known_equal


@pytest.fixture
def opened() -> OpenSizes:
    return OpenSizes()


def test_equal_products_are_known_to_be_equal(opened: OpenSizes) -> None:
    n, h, w = opened.open("n", 1), opened.open("h", 224), opened.open("w", 224)
    assert known_equal(n * (h // 2 + 1) * (w // 2 + 1), (w // 2 + 1) * (h // 2 + 1) * n)
    assert known_equal(((h + 1) // 2 + 1) // 2, (h - 1) // 4 + 1)
    assert not known_equal(n * h, n * w)
    assert not opened.conditions


def test_common_factors_are_cancelled(opened: OpenSizes) -> None:
    n, h = opened.open("n", 1), opened.open("h", 224)
    rows = (h - 33) // 48 + 1
    above, below = without_common([n * rows, 120, h], [n, 60, h])
    assert len(above) == 2
    assert known_equal(above[0], rows)
    assert (above[1], below) == (2, [1])


def test_extremes_that_are_known_are_no_expressions(opened: OpenSizes) -> None:
    n = opened.open("n", 8)
    assert require_least(n, 4)
    assert smallest(n, 4) == 4
    assert known_equal(largest(4, n), n)
    assert str(smallest(n, 5)) == "T.min(n, 5)"


def test_what_is_required_gives_another_example(opened: OpenSizes) -> None:
    n, h = opened.open("n", 1), opened.open("h", 224)
    assert n is not h
    with pytest.raises(OtherExample) as required:
        require_equal((h - 33) // 48 + 1, 1)
    assert required.value.examples == {"n": 1, "h": 80}
    assert not require_equal(h * 2, 3), "it holds for no size"


def test_dimensions_that_have_one_size_are_known(opened: OpenSizes) -> None:
    opened.restarts = True
    n, m = opened.open("n", 1), opened.open("m", 1)
    with pytest.raises(OtherExample) as required:
        require_equal(m, n)
    assert required.value.known == {"m": "n"}
    opened.restart(required.value)
    first, second = opened.open("n", 1), opened.open("m", 1)
    assert known_equal(first, second)
    with pytest.raises(OtherExample) as required:
        require_equal(first, 7)
    opened.restart(OtherExample({}, {"n": 7, "m": "n"}))
    assert (opened.open("n", 1), opened.open("m", 1)) == (7, 7)


def test_bounds_of_a_dimension_that_has_the_size_of_another_one(opened: OpenSizes) -> None:
    opened.known = {"m": "n"}
    opened.open("n", 4)
    opened.open("m", 4, 2, 9)
    assert len(opened.conditions) == 2


def test_nothing_is_required_once_a_network_is_read(opened: OpenSizes) -> None:
    n, m = opened.open("n", 1), opened.open("m", 1)
    opened.assumes = False
    assert not require_equal(n, m)
    assert not opened.conditions


def test_threads_may_ask_at_once(opened: OpenSizes) -> None:
    n = opened.open("n", 1)
    for number in range(2, 5):
        opened.decide(tirx.NE(n.expr, tirx.const(number, "int64")), True)
    failures: list[object] = []

    def ask(begin: int) -> None:
        for number in range(begin, begin + 200):
            if opened.proven(tirx.GE(n.expr * number, n.expr)) is not True:
                failures.append(number)

    threads = [threading.Thread(target=ask, args=(1 + 200 * i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_a_branch_assumes_what_others_need_not_fulfil(opened: OpenSizes) -> None:
    n = opened.open("n", 12)
    assert n > 3
    with assuming_inside(opened):
        assert n > 10
        assert not n > 20
        assert assumes_more(opened)
        own, names = renamed(opened)
    assert len(opened.conditions) == 1
    assert own.variables == [names[v] for v in opened.variables]
    assert [str(condition) for condition in own.conditions][1:] == [
        "T.int64(10) < n",
        "n <= T.int64(20)",
    ]
    opened.assumes = False
    with pytest.raises(TypeError, match="depends on open sizes"):
        n > 10  # noqa: B015
    assert own.size(names[opened.variables[0]]) > 10, "the copy knows it"


def test_an_example_is_one_for_all_branches(opened: OpenSizes) -> None:
    """What one of them required before holds for the example of another one."""
    opened.restarts = True
    for divisor in (4, 3):
        n = opened.open("n", 128)
        with pytest.raises(OtherExample) as raised, assuming_inside(opened):
            opened.require(tirx.EQ((n % divisor).expr, tirx.const(divisor - 1, "int64")))
        opened.restart(raised.value)
    assert hint_of(opened.open("n", 128)) == 131


def test_fractions_of_sizes(opened: OpenSizes) -> None:
    n = opened.open("n", 5)
    half = SingleRatio.of(n) * SingleRatio.of(0.5)
    assert known_equal(half.floor().above, n // 2)
    assert known_equal(half.ceil().above, (n + 1) // 2)
    whole = half * SingleRatio.of(4.0)
    assert known_equal(whole.whole(), n * 2)
    for inexact in (
        lambda: SingleRatio.of(0.1),
        lambda: half / SingleRatio.of(n),
        lambda: half / SingleRatio.of(3.0),
    ):
        with pytest.raises(NotExact):
            inexact()


def test_that_sizes_are_equal_is_not_assumed_by_chance(opened: OpenSizes) -> None:
    """An example of 1 is the usual batch, and one as large as another a square image."""
    batch, rows, columns = (opened.open(n, s) for n, s in (("b", 1), ("h", 224), ("w", 224)))
    for one, other in ((batch, 1), (rows, columns)):
        with pytest.raises(TypeError, match="depends on open sizes"):
            bool(one == other)
    assert not opened.conditions
    assert rows != 7
    assert decide_equal(batch, 1)
    said = [str(c).replace("T.int64", "") for c in opened.conditions]
    assert said == ["h != (7)", "b == (1)"]


def test_a_condition_of_one_choice_makes_a_size_known(opened: OpenSizes) -> None:
    opened.restarts = True
    n, m = opened.open("n", 13), opened.open("m", 13)
    for product, wanted in ((3 * n, 39), (2 * n + 1, 27)):
        with pytest.raises(OtherExample) as raised:
            require_equal(product, wanted)
        assert raised.value.known == {"n": 13}
    with pytest.raises(OtherExample) as raised:
        require_equal(3 * n + 1, 3 * m + 1)
    assert raised.value.known == {"m": "n"}
    assert require_equal(n // 2, 6)  # 12, too


def test_an_example_follows_what_is_equal_to_it(opened: OpenSizes) -> None:
    n, m = opened.open("n", 28), opened.open("m", 224)
    assert require_equal(n, (m - 1) // 8 + 1)
    with pytest.raises(OtherExample) as raised:
        require_equal((m - 1) // 8 + 1, 1)
    assert raised.value.examples == {"n": 1, "m": 8}
