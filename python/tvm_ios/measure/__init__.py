# SPDX-License-Identifier: Apache-2.0
"""Measuring and predicting the latencies of stages, by which the search prices them.

``cost`` measures stages and ``given`` asks a cost model of the user; ``measurer`` has stages timed,
``schedules`` runs whole schedules, ``cache`` keeps samples, and ``profile`` sums up a run.
``protocol`` is what a back end provides, among it the stage runner, which times the stages of one
network, and the timed runs that it returns.

The rooms below are ``timing``, which decides what runs how often and what its samples say,
``transport``, which reaches the processes and devices that stages run on, and ``learned``, which
predicts stages from those that were measured.
"""
