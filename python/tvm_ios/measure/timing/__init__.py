# SPDX-License-Identifier: Apache-2.0
"""Timing: what runs together, how often, and what the samples say.

Stages are timed in runs of the network (``in_network_trial``), in several work partitionings
(``stages``), at the machine's usual speed (``speed``). Whole models (``models``) are timed against
each other in ``rounds``, whose samples are ``paired`` for the ``decision`` between them.
"""
