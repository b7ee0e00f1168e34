# SPDX-License-Identifier: Apache-2.0
"""Write a public model in both forms that PyTorch exports.

python -m public.export SOURCE NAME DIRECTORY

It writes ``model.onnx``, ``model.pt2``, ``inputs.npz`` and ``expected.npz``, which holds what
PyTorch computes, and prints why a form could not be written as JSON.
"""

from __future__ import annotations

import json
import logging
import sys
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

from public.catalogue import INPUT
from public.definitions import define

OPSET = 17


def main() -> None:
    source, name, directory = sys.argv[1:]
    warnings.filterwarnings("ignore")
    logging.disable(logging.WARNING)
    torch.backends.mha.set_fastpath_enabled(False)  # its operator cannot be exported to ONNX
    channel, sys.stdout = sys.stdout, sys.stderr  # exporters print
    module, inputs = define(source, name)
    folder = Path(directory)
    with torch.no_grad():
        outputs = module(*inputs)
        results = outputs if isinstance(outputs, tuple) else (outputs,)
        np.savez(folder / "inputs.npz", **{INPUT: inputs[0].numpy()})
        np.savez(folder / "expected.npz", *[result.numpy() for result in results])
        reasons = {
            "pt2": _reason(lambda: _save_program(module, inputs, folder / "model.pt2")),
            "onnx": _reason(lambda: _save_onnx(module, inputs, folder / "model.onnx")),
        }
    print(json.dumps(reasons), file=channel)


def _save_program(module: torch.nn.Module, inputs: tuple, path: Path) -> None:
    torch.export.save(torch.export.export(module, inputs), path)


def _save_onnx(module: torch.nn.Module, inputs: tuple, path: Path) -> None:
    torch.onnx.export(module, inputs, path, dynamo=False, opset_version=OPSET, input_names=[INPUT])


def _reason(export: Callable[[], None]) -> str | None:
    """Why the model could not be exported; None if it was."""
    try:
        export()
    except Exception as error:  # exporters raise various types
        return str(error).strip().splitlines()[0][:200]
    return None


if __name__ == "__main__":
    main()
