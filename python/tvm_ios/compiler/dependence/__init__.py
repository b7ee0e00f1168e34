# SPDX-License-Identifier: Apache-2.0
"""What in a network depends on what: whether rows of a batch, or positions, are apart."""
