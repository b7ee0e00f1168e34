# SPDX-License-Identifier: Apache-2.0
"""Random mistakes, of which tests should notice most: ``python -m mutation``."""
