# SPDX-License-Identifier: Apache-2.0
"""The assembly in CUDA C that TVM emits, as calls of functions of ``tests/cuda/device/ptx.h``."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

_ASSEMBLY = re.compile(r"\b(?:asm|__asm__)\s+(?:volatile|__volatile__)\s*\(")
_LITERAL = re.compile(r'"((?:[^"\\]|\\.)*)"')
_OPERAND = re.compile(r'\s*"([^"]*)"\s*\((.*)\)\s*', re.DOTALL)
_FORMATS = {"f16": "F16", "bf16": "BF16", "tf32": "TF32"}


class UnknownAssembly(Exception):
    """An instruction that the fake driver does not know."""


@dataclass(frozen=True)
class _Statement:
    """An assembly statement: its text, and what it names %0, %1, ..."""

    text: str
    operands: list[tuple[str, str]]

    def group(self, text: str) -> list[tuple[str, str]]:
        """The operands in ``{%0, %1}`` or in ``[%0]``, each its constraint and its expression."""
        return [self.operands[int(n)] for n in re.findall(r"%(\d+)", text)]

    def value(self, text: str) -> str:
        """The expression of one operand, or a number that is written out."""
        return self.group(text)[0][1] if "%" in text else text.strip()


def replace_assembly(source: str) -> str:
    """``source`` without assembly, line by line the same.

    Raises
    ------
    UnknownAssembly
        For an instruction that has no function in its place.
    """
    pieces, end = [], 0
    for match in _ASSEMBLY.finditer(source):
        close = _closing(source, match.end())
        statement = _parse(source[match.end() : close])
        lines = source.count("\n", match.start(), close)
        pieces += [source[end : match.start()], _call(statement), "\n" * lines]
        end = close + 1
    return "".join([*pieces, source[end:]])


def _closing(source: str, begin: int) -> int:
    """Where the parenthesis ends that was opened before ``begin``."""
    for index, depth in _depths(source, begin):
        if depth < 0:
            return index
    raise UnknownAssembly("a statement without an end")


def _depths(text: str, begin: int = 0) -> Iterator[tuple[int, int]]:
    """Each character outside of literals, with the number of brackets around it."""
    depth, quoted, index = 0, False, begin
    while index < len(text):
        character = text[index]
        if quoted:
            quoted = character != '"'
            index += 2 if character == "\\" else 1
            continue
        quoted = character == '"'
        depth += (character in "([{") - (character in ")]}")
        yield index, depth
        index += 1


def _split(text: str, separator: str) -> list[str]:
    """Parts between separators that are outside of brackets and literals."""
    cuts = [i for i, depth in _depths(text) if depth == 0 and text[i] == separator]
    return [text[a:b] for a, b in zip([0, *(c + 1 for c in cuts)], [*cuts, len(text)], strict=True)]


def _parse(statement: str) -> _Statement:
    template, *rest = _split(statement, ":")
    text = "".join(_LITERAL.findall(template)).replace("\\n", " ").replace("\\t", " ")
    operands: list[tuple[str, str]] = []
    for part in rest[:2]:
        for operand in _split(part, ","):
            if operand.strip():
                match = _OPERAND.fullmatch(operand)
                assert match is not None, operand
                operands.append((match.group(1), match.group(2)))
    return _Statement(" ".join(text.split()).rstrip(" ;"), operands)


def _call(statement: _Statement) -> str:
    for pattern, translate in _INSTRUCTIONS.items():
        match = re.fullmatch(pattern, statement.text)
        if match is not None:
            return translate(statement, match)
    raise UnknownAssembly(f"the fake of CUDA has no function for: {statement.text}")


def _copy(statement: _Statement, match: re.Match[str]) -> str:
    to, source, size = (statement.value(match[i]) for i in (1, 2, 3))
    read = statement.value(match[4]) if match[4] else size
    return f"fake_driver::PtxCopy({to}, {source}, {size}, {read})"


def _copy_if(statement: _Statement, match: re.Match[str]) -> str:
    to, source, size = (statement.value(f"%{i}") for i in (0, 1, 2))
    predicate = statement.value("%3")
    return (
        f"if (({predicate}) == 1) fake_driver::PtxCopy({to}, {source}, {size}, {size}); "
        f"else fake_driver::PtxZero({to}, {size})"
    )


def _load_matrices(statement: _Statement, match: re.Match[str]) -> str:
    registers = ", ".join(f"&({expression})" for _, expression in statement.group(match[3]))
    transposed = "true" if match[2] else "false"
    return (
        f"fake_driver::PtxLoadMatrices<{transposed}>({{{registers}}}, {statement.value(match[4])})"
    )


def _multiply(statement: _Statement, match: re.Match[str]) -> str:
    shape, a_format, b_format = match[1], match[3], match[4]
    if a_format != b_format or a_format not in _FORMATS:
        raise UnknownAssembly(f"the fake of CUDA has no function for: {statement.text}")
    sizes = re.findall(r"\d+", shape)
    results, a, b, c = (statement.group(match[i]) for i in (6, 7, 8, 9))
    accumulator = "float" if "f" in results[0][0] else "unsigned"
    d_list = ", ".join(f"&({expression})" for _, expression in results)
    a_list, b_list = (", ".join(f"(unsigned)({e})" for _, e in group) for group in (a, b))
    c_list = ", ".join(f"({accumulator})({expression})" for _, expression in c)
    kinds = f"fake_driver::{_FORMATS[a_format]}, {', '.join(sizes)}, {accumulator}"
    return (
        f"fake_driver::PtxMultiply<{kinds}>({{{d_list}}}, {{{a_list}}}, {{{b_list}}}, {{{c_list}}})"
    )


def _round(statement: _Statement, _match: re.Match[str]) -> str:
    result, number = statement.value("%0"), statement.value("%1")
    return f"{result} = StandInBits<unsigned>(fake_driver::RoundToTf32({number}))"


_COPY = r"cp\.async\.c[ag]\.shared(?:::cta)?\.global(?:\.L2::\d+B)?"
_GROUP = r"(\{[^}]*\})"
_INSTRUCTIONS: dict[str, Callable[[_Statement, re.Match[str]], str]] = {
    rf"{_COPY} (\[%\d+\]), (\[%\d+\]), (%?\d+)(?:, (%\d+))?": _copy,
    rf"\{{ \.reg \.pred p; setp\.eq\.u32 p, %3, 1; @p {_COPY} \[%0\], \[%1\], %2; "
    r"@!p st\.shared(?:\.v[24])?\.u32 \[%0\], \{[%4, ]*\}; \}": _copy_if,
    r"cvt\.rna\.tf32\.f32 %0, %1": _round,
    r"cp\.async\.commit_group": lambda _s, _m: "StandInCommitCopies()",
    r"cp\.async\.wait_group (\d+)": lambda _s, m: f"StandInAwaitCopies({m[1]})",
    r"cp\.async\.wait_all": lambda _s, _m: "StandInCommitCopies(), StandInAwaitCopies(0)",
    rf"ldmatrix\.sync\.aligned\.m8n8\.x([124])(\.trans)?\.shared(?:::cta)?\.b16 ?{_GROUP}, "
    r"(\[%\d+\])": _load_matrices,
    r"mma\.sync\.aligned\.(m\d+n\d+k\d+)\.row\.col\.(f16|f32)\.(\w+)\.(\w+)\.(f16|f32) ?"
    rf"{_GROUP}, {_GROUP}, {_GROUP}, {_GROUP}": _multiply,
}
