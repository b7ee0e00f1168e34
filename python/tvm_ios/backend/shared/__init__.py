# SPDX-License-Identifier: Apache-2.0
"""What back ends share."""
