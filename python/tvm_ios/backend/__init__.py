# SPDX-License-Identifier: Apache-2.0
"""What computes networks: a back end for each kind of target."""
