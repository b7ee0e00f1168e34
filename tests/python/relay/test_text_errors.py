# SPDX-License-Identifier: Apache-2.0
"""What is no Relay's text form is refused, and the error points at the place."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from support.relay.text import HEADER, METADATA, WEIGHTS, main
from tvm_ios.errors import ModelError, RelayError
from tvm_ios.relay import parse
from tvm_ios.relay.tensors import encode

ERRORS = {
    # What is wrong, in a body that begins in line 3, column 3: (body, line, column, part of it).
    "unknown character": ("nn.relu(%x $)", 3, 14, "'$' has no meaning"),
    "unknown variable": ("nn.relu(\n%y)", 4, 1, "%y is not bound before this"),
    "unknown dotted variable": ("%y.0", 3, 3, "%y.0 is not bound before this"),
    "unknown graph variable": ("nn.relu(%0)", 3, 11, "%0 is not bound before this"),
    "graph variable of later": ("%1 = f(%0); %0 = f(%x); %1", 3, 10, "%0 is not bound before"),
    "graph variable twice": ("%0 = f(%x); %0 = g(%x); %0", 3, 15, "%0 is bound already"),
    "unknown function": ("@f(%x)", 3, 3, "There is no function @f in this module"),
    "function calls itself": ("@main(%x)", 3, 3, "@main calls itself"),
    "value of itself": ("let %f = fn () { %f() }; %f()", 3, 20, "%f is used in its own value"),
    "out of scope": ("%0 = (let %t = 1; %t); %t", 3, 26, "%t is not bound"),
    "no body": ("%0 = nn.relu(%x);", 4, 1, "Expected an expression, found '}'"),
    "no semicolon": ("%0 = nn.relu(%x) %0", 3, 20, "Expected ';', found '%0'"),
    "no closing": ("nn.relu(%x", 4, 1, "Expected ')', found '}'"),
    "no comma": ("f(%x %x)", 3, 8, "Expected ')', found '%x'"),
    "argument after attributes": ("f(%x, a=1, %x)", 3, 14, "Expected a name, found '%x'"),
    "attribute twice": ("f(%x, a=1, a=2)", 3, 14, "The attribute a is given twice"),
    "no value": ("f(%x, a=)", 3, 11, "Expected an attribute's value, found ')'"),
    "variable as value": ("f(%x, a=%x)", 3, 11, "Expected an attribute's value, found '%x'"),
    "float without suffix": ("f(2.5)", 3, 5, "2.5 has no suffix; write 2.5f"),
    "attribute without suffix": ("f(a=1e-5)", 3, 7, "1e-5 has no suffix; write 1e-5f"),
    "no number": ("f(12abc)", 3, 5, "12abc is not a number"),
    "width of integer": ("f(1i8)", 3, 5, "1i8 has a width that is none of 16, 32, 64"),
    "width of float": ("f(1f8)", 3, 5, "1f8 has a width"),
    "integer too large": ("f(40000i16)", 3, 5, "40000i16 does not fit into 16 bits"),
    "integer much too large": (f"f({2**63})", 3, 5, "does not fit into 64 bits"),
    "float too large": ("f(1e39f)", 3, 5, "1e39f does not fit into 32 bits"),
    "string without end": ('f(a="b\n")', 3, 7, "This string does not end"),
    "unknown escape": (r'f(a="\q")', 3, 7, r"\q is not an escape"),
    "string that is no UTF-8": (r'f(a="\xFF")', 3, 7, "not valid UTF-8"),
    "comment without end": ("/* /* */ %x", 3, 3, "This comment does not end"),
    "place in a tuple": ("(%x, %x).-1", 3, 12, "-1 is not an index of a tuple"),
    "pattern matching": ("match (%x) { }", 3, 3, "Pattern matching cannot be converted"),
    "reference": ("ref_read(%x)", 3, 3, "A reference cannot be converted"),
    "generic function": ("fn [A] (%y) { %y }", 3, 6, "Generic functions cannot be converted"),
    "two parameters": ("fn (%y, %y) { %y }", 3, 11, "There is a parameter %y already"),
    "type": ("let %y: List[int8] = 1; %y", 3, 11, "List is not a type that can be converted"),
    "type of elements": ("let %y: Tensor[(1), string] = 1; %y", 3, 23, "string is not the type of"),
    "open type": ("let %y: (_,) = 1; %y", 3, 12, "A part of a type cannot be left open"),
    "dimension": ("let %y: Tensor[(-1), int8] = 1; %y", 3, 19, "-1 is not a dimension"),
    "float dimension": ("let %y: Tensor[(1f), int8] = 1; %y", 3, 19, "1f is not a dimension"),
    "no type": ("let %y: = 1; %y", 3, 11, "Expected a type, found '='"),
    "no else": ("if (True) { %x }", 4, 1, "Expected 'else', found '}'"),
    "no metadata": ("f(meta[relay.Constant][0])", 3, 5, "show_meta_data=True"),
    "deep parentheses": ("(" * 5000 + "%x" + ")" * 5000, 3, 63, "nests deeper than 60 levels"),
    "deep lists": ("f(a=" + "[" * 5000, 3, 66, "nests deeper"),
    "deep types": ("let %y: " + "fn () -> " * 5000, 3, 542, "nests deeper"),
    "version inside": ('#[version = "0.0.5"] %x', 3, 3, "Expected an expression"),
    "unknown section": ("#[data] %x", 3, 3, "#[data] is neither the version nor the metadata"),
}  # fmt: skip


@pytest.mark.parametrize("case", ERRORS)
def test_errors_point_at_what_is_wrong(case: str) -> None:
    body, line, column, message = ERRORS[case]
    text = main(body)
    with pytest.raises(RelayError) as raised:
        parse(text)
    error = raised.value
    assert message in str(error)
    assert (error.line, error.column) == (line, column)
    first, shown, caret = str(error).split("\n")
    assert first.startswith(f"<text>:{line}:{column}: ")
    wrong = text.split("\n")[line - 1][column - 1 :]
    assert shown[len(caret) - 1 :].removesuffix(" ...") in (wrong or "")
    assert caret.strip() == "^"


WHOLE_ERRORS = {
    "no version": ("\ndef @main() { 1 }", 2, 1, "begins with #[version"),
    "another version": ('#[version = "0.0.4"]\n', 1, 1, "This is version 0.0.4"),
    "no function": (HEADER + "%x", 2, 1, "Expected 'def', found '%x'"),
    "a type": (HEADER + "type List[A] { Nil }", 2, 1, "A type definition cannot be converted"),
    "a function twice": (HEADER + "def @f() { 1 }\ndef @f() { 2 }", 3, 5, "a function @f already"),
    "functions call each other": (
        HEADER + "def @f() { @g() }\ndef @g() { @f() }", 3, 12, "@f calls itself",
    ),
    "the end": (HEADER + "def @f() {", 2, 11, "Expected an expression, found the end"),
    "no JSON": (HEADER + "#[metadata]\n{\n  1: 2}", 4, 3, "The JSON is damaged here"),
    "JSON of something else": (HEADER + "#[metadata]\n[]", 2, 12, "no list of nodes"),
    "deep JSON": (HEADER + "#[metadata]\n" + "[" * 100000, 2, 12, "nests too deeply"),
    "no such object": (main("f(meta[relay.Constant][1])", metadata=METADATA), 3, 5, "has 1 objec"),
    "no such type": (main("f(meta[a][0])", metadata=METADATA), 3, 5, "has 0 objects"),
    "no expression": (main("f(meta[Array][0])", metadata=METADATA), 3, 5, "is not an expression"),
    "no attribute": (main("f(a=meta[Target][0])", metadata=METADATA), 3, 7, "is a Target, which"),
    "no dimension": (
        main("let %y: Tensor[(meta[Array][0]), int8] = 1; %y", metadata=METADATA), 3, 19,
        "is not a dimension",
    ),
    "damaged tensor": (
        main("meta[relay.Constant][0]", metadata=METADATA.replace(encode(WEIGHTS), "AAAA")), 3, 3,
        "Tensor 0 of the JSON is damaged",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", WHOLE_ERRORS)
def test_errors_of_a_whole_text(case: str) -> None:
    text, line, column, message = WHOLE_ERRORS[case]
    with pytest.raises(RelayError, match=re.escape(message)) as raised:
        parse(text)
    assert (raised.value.line, raised.value.column) == (line, column)


def test_a_long_line_is_shown_in_part() -> None:
    params = ", ".join(f"%parameter_{i}: int8" for i in range(500))
    with pytest.raises(RelayError) as raised:
        parse(main("%parameter_3", params.replace("%parameter_250: int8", "%parameter_250: ints")))
    _, shown, caret = str(raised.value).split("\n")
    assert len(shown) < 120
    assert shown[len(caret) - 1 :].startswith("ints, %parameter_251")


def test_a_variable_outside_of_its_let_is_refused() -> None:
    text = main("%0 = (let %t = f(%x); %1 = g(%t); %1); h(%0, %1)")
    with pytest.raises(RelayError, match=r"%t is used in @main where it is not bound"):
        parse(text)


def test_files(tmp_path: Path) -> None:
    path = tmp_path / "a model"
    path.write_text(main("%x"))
    assert list(parse(path).functions) == list(parse(str(path)).functions) == ["main"]
    path.write_text(main("%y"))
    with pytest.raises(ModelError, match=re.escape(f"{path}:3:3: %y is not bound")):
        parse(path)
    path.write_text('{"stages": []}')
    with pytest.raises(RelayError, match=re.escape(f"{path}: The JSON is not a graph")):
        parse(path)
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(RelayError, match="is not text"):
        parse(path)
    for missing in (tmp_path / "missing", tmp_path, "missing", "a\0b", ""):
        with pytest.raises(RelayError, match="Cannot read") as raised:
            parse(missing)
        assert raised.value.line is None
