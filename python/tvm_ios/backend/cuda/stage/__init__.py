# SPDX-License-Identifier: Apache-2.0
"""How a stage's groups are launched: on streams, or in one launch."""
