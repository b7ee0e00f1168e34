# SPDX-License-Identifier: Apache-2.0
"""Quantise an ONNX model as its users do, by ONNX Runtime's quantiser, for ``peers.py``.

Activations are unsigned and weights signed bytes, the latter with a scale for each channel. What is
known of the activations is what they are on random inputs, unless they are quantised while the
model runs. Weights of 4 bits have a scale for each 32 of them; activations are then not quantised.
"""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import onnx
from onnxruntime.quantization import (
    CalibrationDataReader,
    QuantFormat,
    QuantType,
    quantize_dynamic,
    quantize_static,
)
from onnxruntime.quantization.matmul_nbits_quantizer import MatMulNBitsQuantizer

from peer.models import Model, load
from tvm_ios.errors import TvmIosError
from tvm_ios.support.files import replacing

_RUNS = 3  # on the same inputs: the quantiser wants several


class _Inputs(CalibrationDataReader):  # type: ignore[misc]
    def __init__(self, inputs: dict[str, np.ndarray]) -> None:
        self._runs = iter([inputs] * _RUNS)

    def get_next(self) -> dict[str, np.ndarray] | None:
        return next(self._runs, None)


def _static(form: QuantFormat, model: Model, path: Path, operators: list[str] | None) -> None:
    quantize_static(
        model.path,
        path,
        _Inputs(model.inputs),
        quant_format=form,
        op_types_to_quantize=operators,
        per_channel=True,
        activation_type=QuantType.QUInt8,
        weight_type=QuantType.QInt8,
    )


def _dynamic(model: Model, path: Path, operators: list[str] | None) -> None:
    quantize_dynamic(
        model.path,
        path,
        op_types_to_quantize=operators,
        per_channel=True,
        weight_type=QuantType.QInt8,
    )


def _four_bits(model: Model, path: Path, operators: list[str] | None) -> None:
    quantizer = MatMulNBitsQuantizer(
        onnx.load(model.path), block_size=32, op_types_to_quantize=operators and tuple(operators)
    )
    quantizer.process()
    quantizer.model.save_model_to_file(str(path))


FORMS = {
    "pairs": partial(_static, QuantFormat.QDQ),
    "operators": partial(_static, QuantFormat.QOperator),
    "dynamic": _dynamic,
    "4 bits": _four_bits,
}
"""Functions that quantise a model, by what they write."""


def main(argv: Sequence[str] | None = None) -> int:
    """Write the quantised model; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("model", metavar="MODEL", help="a network of the zoo, or an ONNX file")
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="FILE")
    parser.add_argument("--operators", metavar="TYPE,...", help="default: all that it can quantise")
    parser.add_argument("--form", choices=FORMS, default="pairs", help="default: %(default)s")
    options = parser.parse_args(argv)
    logging.disable(logging.WARNING)
    try:
        with TemporaryDirectory() as directory, replacing(options.output) as (draft,):
            model = load(options.model, 1, Path(directory))
            operators = options.operators and options.operators.split(",")
            FORMS[options.form](model, draft, operators)
    except (TvmIosError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
