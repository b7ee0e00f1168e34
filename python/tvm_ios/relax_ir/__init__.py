# SPDX-License-Identifier: Apache-2.0
"""Reading of Relax: the constants, the expressions and the bindings of a function."""
