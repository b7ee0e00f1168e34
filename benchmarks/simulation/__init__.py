# SPDX-License-Identifier: Apache-2.0
"""Networks on more workers than this machine has cores: a discrete-event simulation.

What each worker computes is known: a network is compiled for that many workers, run by one core,
and the time of each worker's share of each kernel is recorded (:mod:`.recording`). What each worker
reads that another one wrote follows from the footprints of the kernels (:mod:`.traffic`). The waits
are those that the compiler has planned. :mod:`.events` puts them together, by what a machine's
cores share (:mod:`.machine`). Schedules for that many workers are searched by prices that follow
from the recorded times (:mod:`.prices`).
"""
