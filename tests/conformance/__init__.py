# SPDX-License-Identifier: Apache-2.0
"""The test suites of ONNX and PyTorch, run on what is compiled here."""
