# SPDX-License-Identifier: Apache-2.0
"""Write a public model as an ONNX file that leaves the sizes of its input open.

python -m public.open_export SOURCE NAME FILE
"""

from __future__ import annotations

import logging
import sys
import warnings

import torch

from public.catalogue import INPUT
from public.definitions import define
from public.export import OPSET

AXES = {2: ("batch", "tokens"), 4: ("batch", None, "height", "width")}
"""The names of the dimensions that stay open, by the rank of the input."""


def main() -> None:
    source, name, path = sys.argv[1:]
    warnings.filterwarnings("ignore")
    logging.disable(logging.WARNING)
    torch.backends.mha.set_fastpath_enabled(False)  # its operator cannot be exported to ONNX
    sys.stdout = sys.stderr  # exporters print
    module, inputs = define(source, name)
    axes = {axis: name for axis, name in enumerate(AXES[inputs[0].dim()]) if name}
    with torch.no_grad():
        torch.onnx.export(
            module,
            inputs,
            path,
            dynamo=False,
            opset_version=OPSET,
            input_names=[INPUT],
            dynamic_axes={INPUT: axes},
        )


if __name__ == "__main__":
    main()
