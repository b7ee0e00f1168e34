# SPDX-License-Identifier: Apache-2.0
"""Inspection of tvm_ios's environment; imports neither tvm_ios nor TVM, which may be broken."""

from . import moved

moved.install()
