# SPDX-License-Identifier: Apache-2.0
"""Models that were saved in Relay, which TVM had up to v0.19."""

from .frontend.relay import Module, load, load_params, parse, to_text

__all__ = ["Module", "load", "load_params", "parse", "to_text"]
