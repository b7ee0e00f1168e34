# SPDX-License-Identifier: Apache-2.0
"""The steps from a Relax module to a library."""
