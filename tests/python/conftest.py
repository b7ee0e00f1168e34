# SPDX-License-Identifier: Apache-2.0
"""What is made once for the tests that need no device but this machine's CPU."""

from __future__ import annotations

from support.fixtures import hurried

__all__ = ["hurried"]
