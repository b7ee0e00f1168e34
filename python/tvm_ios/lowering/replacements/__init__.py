# SPDX-License-Identifier: Apache-2.0
"""Rules by which one larger operator replaces several (IOPS, section 2.3)."""
