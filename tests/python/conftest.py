# SPDX-License-Identifier: Apache-2.0
"""What is made once for all tests."""

from support.fixtures import caches, compiled, emulated, no_cache_of_the_user, standin

__all__ = ["caches", "compiled", "emulated", "no_cache_of_the_user", "standin"]
