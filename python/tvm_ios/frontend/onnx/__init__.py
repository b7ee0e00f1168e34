# SPDX-License-Identifier: Apache-2.0
"""Reading of ONNX files: the file, its shapes, and the converters of its operators."""

from .file import from_file

__all__ = ["from_file"]
