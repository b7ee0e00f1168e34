# SPDX-License-Identifier: Apache-2.0
"""The tests that need PyTorch; ``make test-pytorch`` installs it."""

from support.fixtures import caches, compiled, emulated, no_cache_of_the_user, standin

__all__ = ["caches", "compiled", "emulated", "no_cache_of_the_user", "standin"]
