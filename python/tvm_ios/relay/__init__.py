# SPDX-License-Identifier: Apache-2.0
"""The front end for models saved in Relay, which TVM had up to v0.19."""

from .ast import Module
from .loading import load
from .params import load_params
from .printer import to_text
from .reading import parse

__all__ = ["Module", "load", "load_params", "parse", "to_text"]
