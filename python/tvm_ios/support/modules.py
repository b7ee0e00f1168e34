# SPDX-License-Identifier: Apache-2.0
"""Names of a model's modules and nodes, as names of Relax variables.

TVM's passes keep variables' names, and nothing else that could carry the name of a module. A
builder makes names unique by a number at their end, and replaces dots. So a name that comes from
the model has slashes and ends with a mark, behind which the number goes.
"""

from __future__ import annotations

import re

_MARK = "#"
_MARKED = re.compile(rf"(.+){_MARK}\d*", re.DOTALL)


def variable_name(path: str) -> str:
    """Return the name of the variable that holds a module's result; "" for no module."""
    return path.strip(".").replace(".", "/") + _MARK if path.strip(".") else ""


def module_path(variable: str) -> str | None:
    """Return the module that a variable's name is from, such as ``features.3.conv``.

    Parameters
    ----------
    variable : str
        The name of a Relax variable.

    Returns
    -------
    str or None
        None if the variable is not named for a module.
    """
    match = _MARKED.fullmatch(variable)
    return match[1].replace("/", ".") if match else None
