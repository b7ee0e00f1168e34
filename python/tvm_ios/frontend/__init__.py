# SPDX-License-Identifier: Apache-2.0
"""Front ends, which return Relax modules: ONNX, PyTorch, Relay, and a zoo of published networks."""
