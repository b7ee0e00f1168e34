# SPDX-License-Identifier: Apache-2.0
"""Networks as Relax modules: from ONNX, PyTorch, Relay, and those of the literature."""
