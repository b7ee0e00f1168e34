# SPDX-License-Identifier: Apache-2.0
"""Networks side by side under this package and under others, each in a process of its own."""
