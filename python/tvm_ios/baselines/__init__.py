# SPDX-License-Identifier: Apache-2.0
"""Others that run a network, to compare with; what they need is imported when it is asked for."""
