# SPDX-License-Identifier: Apache-2.0
"""How many samples a second a machine computes, and how to ask for them.

:mod:`.ways` are the ways to make requests: callers, threads of a call, and batches. Each system
runs in processes of its own (:mod:`.worker`), and :mod:`.contest` lets all ways take turns.
"""
