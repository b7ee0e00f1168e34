# SPDX-License-Identifier: Apache-2.0
"""Parsing of saved Relay in either form, from a file or a string."""

from __future__ import annotations

import os
from pathlib import Path

from ..support.errors import RelayError
from .ast import Module
from .budget import Budget
from .check import check_module
from .json_form import parse_json
from .parser import parse_text
from .source import Source


def parse(text_or_path: str | os.PathLike[str]) -> Module:
    """Read a module that TVM v0.8 to v0.19 saved.

    Parameters
    ----------
    text_or_path : str or path
        A file, or its content: the text form (``mod.astext(show_meta_data=True)``) or the JSON form
        (``tvm.ir.save_json(mod)``). A string with several lines, or one that begins with ``#[`` or
        ``{``, is content.

    Returns
    -------
    Module
        The module as it is written; operators are not checked.

    Raises
    ------
    RelayError
        If there is no such file, it has neither form, or it contains what cannot be converted.
    """
    source = _source(text_or_path)
    form = parse_json if source.text.lstrip().startswith("{") else parse_text
    budget = Budget.of_text(len(source.text))
    try:
        module = form(source, budget)
        check_module(module, budget)
    except RelayError as error:
        if error.line is not None:
            raise
        raise type(error)(f"{source.name}: {error}") from error
    return module


def _source(text_or_path: str | os.PathLike[str]) -> Source:
    if isinstance(text_or_path, str):
        start = text_or_path.lstrip()[:2]
        if "\n" in text_or_path or start == "#[" or start[:1] == "{":
            return Source("<text>", text_or_path)
    path = Path(text_or_path)
    try:
        return Source(str(path), path.read_text("utf-8"))
    except UnicodeDecodeError:
        raise RelayError(f"{path} is not text; give a file in Relay's text or JSON form.") from None
    except (OSError, ValueError) as error:  # ValueError: a null character in the path
        reason = getattr(error, "strerror", None) or error
        raise RelayError(f"Cannot read {path}: {reason}.") from None
