# SPDX-License-Identifier: Apache-2.0
"""Reading of ONNX files: the file, its shapes, its operators, and TVM's importer."""

from .file import from_file

__all__ = ["from_file"]
