# SPDX-License-Identifier: Apache-2.0
"""Front ends, which return Relax modules: ONNX, PyTorch, and formats that packages add."""
