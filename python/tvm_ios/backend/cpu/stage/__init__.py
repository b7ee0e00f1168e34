# SPDX-License-Identifier: Apache-2.0
"""How a stage's work is shared out among threads."""
