# SPDX-License-Identifier: Apache-2.0
"""Quantise an ONNX model as its users do, by ONNX Runtime's quantiser, for ``peers.py``.

Activations are unsigned and weights signed bytes, the latter with a scale for each channel. What is
known of the activations is what they are on random inputs.
"""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static

from peer.models import load
from tvm_ios.errors import TvmIosError
from tvm_ios.support.files import replacing

_RUNS = 3  # on the same inputs: the quantiser wants several


class _Inputs(CalibrationDataReader):  # type: ignore[misc]
    def __init__(self, inputs: dict[str, np.ndarray]) -> None:
        self._runs = iter([inputs] * _RUNS)

    def get_next(self) -> dict[str, np.ndarray] | None:
        return next(self._runs, None)


def main(argv: Sequence[str] | None = None) -> int:
    """Write the quantised model; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("model", metavar="MODEL", help="a network of the zoo, or an ONNX file")
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="FILE")
    parser.add_argument("--operators", metavar="TYPE,...", help="default: all that it can quantise")
    options = parser.parse_args(argv)
    logging.disable(logging.WARNING)
    try:
        with TemporaryDirectory() as directory, replacing(options.output) as (draft,):
            model = load(options.model, 1, Path(directory))
            quantize_static(
                model.path,
                draft,
                _Inputs(model.inputs),
                quant_format=QuantFormat.QDQ,
                op_types_to_quantize=options.operators and options.operators.split(","),
                per_channel=True,
                activation_type=QuantType.QUInt8,
                weight_type=QuantType.QInt8,
            )
    except (TvmIosError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
