# SPDX-License-Identifier: Apache-2.0
"""Loading of saved Relay as a Relax module, in one step."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

import numpy as np
import tvm

from .ast import Module
from .convert import convert
from .params import load_params
from .reading import parse

Params = Mapping[str, np.ndarray]


def load(
    text_or_path: str | os.PathLike[str],
    params: Params | str | os.PathLike[str] | None = None,
    input_shapes: Mapping[str, Sequence[int]] | None = None,
) -> tvm.IRModule:
    """Read a saved Relay model and convert it to Relax.

    Parameters
    ----------
    text_or_path : str or path
        A file of the text form or of the JSON form, or the content of one; see
        :func:`tvm_ios.relay.parse`.
    params : mapping of str to array, or path, optional
        Values of parameters of ``@main`` by name, or a file of them that ``relay.save_param_dict``
        wrote. They become constants. The other parameters become arguments, in their order.
    input_shapes : mapping of str to sequence of int, optional
        Shapes of arguments that have unknown dimensions, Relay's ``?``.

    Returns
    -------
    tvm.IRModule
        A module with one function, "main"; see :func:`tvm_ios.relay.convert.convert`.

    Raises
    ------
    RelayError
        If the model or the parameters cannot be read, or something cannot be converted.
    """
    module = parse(text_or_path)
    return convert(module, given_params(module, params), input_shapes)


def given_params(
    module: Module, params: Params | str | os.PathLike[str] | None
) -> dict[str, np.ndarray]:
    """Return the values by the names that they have in the module.

    Relay's text form prepends ``v`` to a name that does not begin with a letter.
    """
    if params is None:
        return {}
    values = load_params(params) if isinstance(params, str | os.PathLike) else params
    main = module.functions.get("main")
    known = {var.name for var in main.params} if main else set()
    return {
        f"v{name}" if name not in known and f"v{name}" in known else name: value
        for name, value in values.items()
    }
