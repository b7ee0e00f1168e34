# SPDX-License-Identifier: Apache-2.0
"""Entry points: what starts the command, and what TVM loads when it is imported.

They load :mod:`tvm_ios` when it is used.
"""
