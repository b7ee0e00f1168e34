# SPDX-License-Identifier: Apache-2.0
"""What is left when a process of tvm-ios is killed: everything whole, nothing lost."""
