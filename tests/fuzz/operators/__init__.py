# SPDX-License-Identifier: Apache-2.0
"""How every operator of each front end is drawn, valid by construction."""

from . import (  # noqa: F401  (they fill the tables)
    onnx_elementwise,
    onnx_motifs,
    onnx_movement,
    onnx_quantized,
    onnx_rows,
    onnx_windows,
    relax_images,
    relax_tensors,
)
from .table import ONNX, RELAX, Table

TABLES: dict[str, Table] = {"onnx": ONNX, "relax": RELAX}


def names() -> list[str]:
    """All operators, as networks name them."""
    return [f"{front}.{name}" for front, table in TABLES.items() for name in table.operators]


__all__ = ["TABLES", "Table", "names"]
