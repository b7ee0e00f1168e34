# SPDX-License-Identifier: Apache-2.0
"""Layouts such as ``NCHW``, ``HWIO`` and ``NCHW8c``, and conversion between them.

A capital letter is an axis. A small letter with a number before it is the inner part of the axis
with the same letter: ``NCHW8c`` has channel ``c`` at ``[n, c // 8, h, w, c % 8]``.
"""

from __future__ import annotations

import re

from tvm import relax

from ...frontend.emitter import Emitter, shape_of

_LAYOUT = re.compile(r"([A-Z]|[1-9][0-9]*[a-z])+")


def relayout(emit: Emitter, x: relax.Expr, source: str, target: str) -> relax.Expr:
    """Convert ``x`` from layout ``source`` to layout ``target``.

    Parameters
    ----------
    emit : Emitter
        The emitter.
    x : relax.Expr
        The tensor.
    source, target : str
        The layouts.

    Raises
    ------
    RelayError
        If ``x`` does not have the layout, or a size is not a multiple of its inner part.
    """
    if source == target:
        return x
    return _pack(emit, _unpack(emit, x, source, _plain(emit, target)), target)


def sizes_of(emit: Emitter, x: relax.Expr, layout: str, axes: str) -> tuple[int, ...]:
    """Return the sizes of some axes that are not split.

    Parameters
    ----------
    emit : Emitter
        The emitter.
    x : relax.Expr
        The tensor.
    layout : str
        The layout of the tensor.
    axes : str
        The letters of the axes.
    """
    names = [name for name in layout if name.isalpha()]
    if len(names) != len(shape_of(x)) or not {*axes} <= {*names}:
        raise emit.error(f"has the layout {layout!r}, but its argument is {list(shape_of(x))}.")
    return tuple(shape_of(x)[names.index(axis)] for axis in axes)


def is_plain(layout: str) -> bool:
    """Return whether no axis is split."""
    return layout.isalpha() and layout.isupper()


def _plain(emit: Emitter, layout: str) -> str:
    """Return the axes of ``layout`` without inner parts."""
    return "".join(axis for axis, part in _axes(emit, layout) if part is None)


def _axes(emit: Emitter, layout: str) -> list[tuple[str, int | None]]:
    """Return each letter with None, or with the size of an inner part."""
    if not _LAYOUT.fullmatch(layout):
        raise emit.error(f"has the invalid layout {layout!r}; write it as NCHW or NCHW8c.")
    found = re.findall(r"([0-9]*)([A-Za-z])", layout)
    axes = [(letter, int(size) if size else None) for size, letter in found]
    names = [letter for letter, _ in axes]
    whole = [letter for letter in names if letter.isupper()]
    if len({*names}) < len(names) or any(n.upper() not in whole for n in names):
        raise emit.error(f"has the layout {layout!r}, which names an axis twice or only a part.")
    return axes


def _unpack(emit: Emitter, x: relax.Expr, layout: str, target: str) -> relax.Expr:
    """Merge the inner parts of the axes of ``x``, and reorder the axes to ``target``."""
    names = [name for name, _ in _axes(emit, layout)]
    shape = shape_of(x)
    if len(shape) != len(names) or {*target} != {n for n in names if n.isupper()}:
        raise emit.error(f"has {len(shape)} axes, which cannot go from {layout} to {target}.")
    order, sizes = [], []
    for name in target:
        parts = [i for i, other in enumerate(names) if other.upper() == name]
        parts.sort(key=lambda i: names[i].islower())
        order += parts
        size = 1
        for i in parts:
            size *= shape[i]
        sizes.append(size)
    return emit.reshape(emit.transpose(x, order), sizes)


def _pack(emit: Emitter, x: relax.Expr, layout: str) -> relax.Expr:
    """Split the axes of ``x``, which are in the order of ``layout``, into its inner parts."""
    axes = _axes(emit, layout)
    parts = {name.upper(): size for name, size in axes if size is not None}
    whole = [name for name, size in axes if size is None]
    shape, names = [], []
    for name, size in zip(whole, shape_of(x), strict=True):
        part = parts.get(name)
        if part is None:
            shape.append(size)
            names.append(name)
            continue
        if size % part:
            raise emit.error(f"divides {size} into parts of {part} ({layout}); pad it first.")
        shape += [size // part, part]
        names += [name, name.lower()]
    order = [names.index(name) for name, _ in axes]
    return emit.transpose(emit.reshape(x, shape), order)
