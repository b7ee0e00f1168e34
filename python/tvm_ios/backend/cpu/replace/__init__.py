# SPDX-License-Identifier: Apache-2.0
"""Rules that replace several operators by one larger operator, in one table (IOPS, section 2.3)."""
