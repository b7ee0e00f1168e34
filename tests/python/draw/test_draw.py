# SPDX-License-Identifier: Apache-2.0
"""Pictures of schedules: whole, each operator once, and safe whatever operators are called."""

from __future__ import annotations

import html.parser
import json
import re
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations, pairwise
from pathlib import Path

import numpy as np
import pytest

from support.branches import network
from support.cli import assert_one_sentence
from support.draw import HOSTILE, hostile, large, schedule_of, small
from support.networks import NATIVE, few_stages
from tvm_ios import draw
from tvm_ios.cli.main import main
from tvm_ios.compiler.scheduler import Scheduler
from tvm_ios.draw.layout import BOX_HEIGHT, BOX_WIDTH, Picture, layout
from tvm_ios.errors import ScheduleError
from tvm_ios.schedule import Schedule, ScheduledOperator, ScheduledStage

SVG = "{http://www.w3.org/2000/svg}"
SCHEDULES = {
    "small": small(),
    "large": large(),
    "hostile": hostile(),
    "empty": schedule_of((), ()),
}


class Page(html.parser.HTMLParser):
    """The elements of a page and what its scripts are."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[str] = []
        self._in_script = False
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        self._in_script = tag == "script"

    def handle_endtag(self, tag: str) -> None:
        self._in_script = False

    def handle_data(self, data: str) -> None:
        if self._in_script:
            self.scripts.append(data)


def shown(name: str) -> str:
    """A name as a document may hold it."""
    return re.sub("[\x00\x1b\ud800]", "\ufffd", name)


def boxes(picture: Picture) -> Iterator:
    return (box for band in picture.bands for lane in band.lanes for box in lane.boxes)


@pytest.mark.parametrize("schedule", SCHEDULES.values(), ids=SCHEDULES)
def test_svg_is_xml_with_each_operator_once(schedule: Schedule) -> None:
    root = ElementTree.fromstring(draw.svg([schedule]))
    drawn = [g for g in root.iter(f"{SVG}g") if g.get("class") == "op"]
    # A line break in an attribute is a space of XML.
    names = [shown(op.name).replace("\n", " ") for op in schedule.operators]
    assert Counter(g.get("data-name") for g in drawn) == Counter(names)
    assert len(list(root.iter(f"{SVG}path"))) == sum(len(op.reads) for op in schedule.operators)
    stages = [g for g in root.iter(f"{SVG}g") if g.get("class") == "stage"]
    assert [g.get("data-stage") for g in stages] == [str(i) for i in range(len(schedule.stages))]


@pytest.mark.parametrize("schedule", SCHEDULES.values(), ids=SCHEDULES)
def test_html_holds_nothing_but_its_own_scripts(schedule: Schedule) -> None:
    text = draw.html([schedule])
    text.encode()  # no half of a surrogate is left
    page = Page(text)
    names = [attrs["data-name"] for _, attrs in page.elements if attrs.get("class") == "op"]
    assert Counter(names) == Counter(shown(op.name) for op in schedule.operators)
    assert [tag for tag, _ in page.elements].count("script") == 1
    assert not [tag for tag, _ in page.elements if tag in ("img", "iframe", "object")]
    assert "throw new Error" not in "".join(page.scripts)
    assert not re.search(r"(src|href)=[\"']?https?:|@import|url\(", text)


def test_a_picture_says_what_is_known() -> None:
    text = draw.svg([small()])
    details = [t.text for t in ElementTree.fromstring(text).iter(f"{SVG}title")]
    assert "stem\nconv2d\nfloat32[1, 8, 16, 16]\n2.0 MFLOP\n40.0 µs alone on one worker" in details
    for expected in ("7 operators in 4 stages", "llvm znver4", "concurrent, groups", "25.0 µs"):
        assert expected in text
    assert text.count('class="merged"') == 1


@pytest.mark.parametrize("schedule", [small(), large()], ids=["small", "large"])
def test_nothing_overlaps(schedule: Schedule) -> None:
    picture = layout(schedule)
    for above, below in pairwise(picture.bands):
        assert above.y + above.height < below.y
    for band in picture.bands:
        for lane in band.lanes:
            for box in lane.boxes:
                assert band.y < box.y
                assert box.y + BOX_HEIGHT < band.y + band.height
    for one, other in combinations(boxes(picture), 2):
        apart = abs(one.x - other.x) >= BOX_WIDTH or abs(one.y - other.y) >= BOX_HEIGHT
        assert apart, (one, other)
    assert all(box.x + BOX_WIDTH < picture.width for box in boxes(picture))


@pytest.mark.parametrize("schedule", [small(), large(120)], ids=["small", "large"])
def test_edges_pass_no_box(schedule: Schedule) -> None:
    picture = layout(schedule)
    drawn = list(boxes(picture))
    for edge in picture.edges:
        for x, y in edge.points[1:-1]:  # those at the ends touch their own boxes
            for box in drawn:
                inside = box.x < x < box.x + BOX_WIDTH and box.y <= y <= box.y + BOX_HEIGHT
                assert not inside, (edge, box)


def test_operators_of_a_group_stand_in_their_order() -> None:
    order = {box.operator.name: (box.x, box.y) for box in boxes(layout(small()))}
    assert order["left"][0] == order["left_next"][0]
    assert order["left"][1] < order["left_next"][1]
    assert order["left"][1] == order["right"][1]
    assert order["one"][1] == order["other"][1], "what is merged runs at once"


def test_bars_are_in_proportion_over_all_pictures() -> None:
    twice = replace(
        small(), stages=tuple(replace(s, seconds=2 * s.seconds) for s in small().stages)
    )
    root = ElementTree.fromstring(draw.svg([small(), twice]))
    bars = [
        float(bar.get("width"))
        for stage in root.iter(f"{SVG}g")
        if stage.get("class") == "stage"
        for bar in stage.iter(f"{SVG}rect")
        if bar.get("class") == "bar"
    ]
    seconds = [s.seconds for schedule in (small(), twice) for s in schedule.stages]
    np.testing.assert_allclose(np.array(bars) / bars[1], np.array(seconds) / 25e-6, rtol=1e-2)


def test_stages_that_the_first_lacks_are_marked() -> None:
    apart = tuple(
        ScheduledStage(((n,),)) for n in ("stem", "left", "left_next", "right", "one", "other")
    )
    other = replace(small(), stages=(*apart, ScheduledStage((("joined",),))))
    text = draw.svg([small(), other], ["a.json", "b <i>.json"])
    assert text.count('class="stage new"') == 5  # all but stem and joined
    assert "b &lt;i&gt;.json" in text
    assert draw.svg([small(), small()]).count('class="stage new"') == 0


def test_schedules_of_earlier_releases_have_no_edges(tmp_path: Path) -> None:
    data = small().to_dict()
    for operator in data["operators"]:
        for key in ("reads", "outputs", "flops"):
            del operator[key]
    path = tmp_path / "old.json"
    path.write_text(json.dumps(data))
    old = Schedule.load(path)
    assert [op.reads for op in old.operators] == [None] * 7
    picture = layout(old)
    assert picture.edges == ()
    assert len(list(boxes(picture))) == 7
    assert draw.html([old])
    assert draw.dot(old).count("->") == 3  # those that keep stages in order


def test_what_an_operator_reads_is_kept(tmp_path: Path) -> None:
    scheduler = Scheduler.prepare(network(), NATIVE, cost_model=few_stages)
    for schedule in (scheduler.search(), scheduler.unsearched(), scheduler.sequential()):
        described = {op.name: op for op in schedule.operators}
        concat = described["concat_4"]
        assert concat.reads == ("conv2d_1", "conv2d_2", "avg_pool2d_3")
        assert concat.outputs == ("float32[1, 52, 8, 8]",)
        assert described["max_pool2d_0"].reads == ()
        assert described["conv2d_1"].flops == 2 * 20 * 24 * 8 * 8
        schedule.save(tmp_path / "s.json")
        assert Schedule.load(tmp_path / "s.json") == schedule


def test_what_is_there_to_be_looked_at_does_not_change_the_code() -> None:
    bare = tuple(ScheduledOperator(op.name, op.kind, op.seconds) for op in small().operators)
    assert small().lowers_like(replace(small(), operators=bare))
    other = (replace(bare[0], seconds=1.0), *bare[1:])
    assert not small().lowers_like(replace(small(), operators=other))


@pytest.mark.parametrize(
    ("operators", "message"),
    [
        (lambda ops: ops[1:], "'stem' in a stage but not in its list"),
        (lambda ops: [{**ops[0], "reads": "left"}, *ops[1:]], "reads are not a list"),
        (lambda ops: [{**ops[0], "flops": "many"}, *ops[1:]], "is damaged"),
    ],
)
def test_a_schedule_that_is_damaged(operators, message: str) -> None:
    data = json.loads(json.dumps(small().to_dict()))
    data["operators"] = operators(data["operators"])
    with pytest.raises(ScheduleError, match=message):
        layout(Schedule.from_dict(data))


def test_an_operator_in_two_stages() -> None:
    twice = replace(small(), stages=(*small().stages, small().stages[0]))
    for function in (layout, draw.dot):
        with pytest.raises(ScheduleError, match="repeats operator 'stem'"):
            function(twice)


def test_edges_to_unknown_operators_and_upwards_are_drawn_or_left_out() -> None:
    first = replace(small().operators[0], reads=("joined", "nobody"))
    odd = replace(small(), operators=(first, *small().operators[1:]))
    edges = {(edge.producer, edge.consumer) for edge in layout(odd).edges}
    assert ("joined", "stem") in edges
    assert not [edge for edge in edges if "nobody" in edge]
    assert "nobody" not in draw.dot(odd)


def _dot_strings(text: str) -> list[str]:
    """All quoted strings; what is left without them has no quote."""
    strings = re.findall(r'"(?:[^"\\]|\\.)*"', text)
    assert '"' not in re.sub(r'"(?:[^"\\]|\\.)*"', "", text)
    return strings


@pytest.mark.parametrize("schedule", SCHEDULES.values(), ids=SCHEDULES)
def test_dot(schedule: Schedule, tmp_path: Path) -> None:
    text = draw.dot(schedule)
    assert text.count("{") - "".join(_dot_strings(text)).count("{") == 1 + sum(
        1 + len(stage.groups) for stage in schedule.stages
    )
    assert text.count(" [label=") == len(schedule.operators)
    if shutil.which("dot") is None:
        pytest.skip("Graphviz is not installed")
    path = tmp_path / "s.dot"
    path.write_text(text, "utf-8")
    done = subprocess.run(["dot", "-Tplain", path], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    nodes = [line for line in done.stdout.splitlines() if line.startswith("node ")]
    assert len(nodes) == len(schedule.operators)


def test_notebooks() -> None:
    (element,) = (attrs for tag, attrs in Page(hostile()._repr_mimebundle_()["text/html"]).elements)
    assert element["srcdoc"] == draw.html([hostile()])
    assert element["sandbox"] == "allow-scripts"
    ElementTree.fromstring(small()._repr_mimebundle_()["image/svg+xml"])


@pytest.fixture
def path(tmp_path: Path) -> Path:
    small().save(tmp_path / "s.json")
    return tmp_path / "s.json"


@pytest.mark.parametrize("form", ["svg", "html", "dot", "text"])
def test_show_writes_what_it_prints(form: str, path: Path, capsys) -> None:
    assert main(["show", str(path), "--format", form]) == 0
    printed = capsys.readouterr().out
    out = path.with_name("out")
    assert main(["show", str(path), "--format", form, "-o", str(out)]) == 0
    assert capsys.readouterr().out == ""
    assert out.read_text("utf-8") == printed
    assert "left_next" in printed


@pytest.mark.parametrize("form", ["svg", "html", "text"])
def test_show_compares(form: str, path: Path, capsys) -> None:
    assert main(["show", str(path), str(path), "--format", form]) == 0
    assert str(path) in capsys.readouterr().out.replace("\n", "")


def test_show_with_arguments_at_odds(path: Path, capsys) -> None:
    before = sorted(path.parent.iterdir())
    cases = {
        "--json and --format svg exclude each other": ["--json", "--format", "svg"],
        "draws one schedule": [str(path), "--format", "dot"],
        "invalid choice": ["--format", "gif"],
        "none/s.svg": ["--format", "svg", "-o", str(path.parent / "none" / "s.svg")],
    }
    for message, arguments in cases.items():
        assert main(["show", str(path), *arguments]) == 4
        assert_one_sentence(capsys.readouterr(), message)
    assert sorted(path.parent.iterdir()) == before


def test_names_that_are_hostile_are_worth_their_name() -> None:
    assert "</script>" in HOSTILE[0]
    assert any("\ud800" in name for name in HOSTILE)


def test_a_notebook_shows_a_picture() -> None:
    """Importing the package is enough."""
    script = "import tvm_ios; from tvm_ios.schedule.schedule import drawings; print(*drawings)"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.split() == ["text/html", "image/svg+xml"]
