# SPDX-License-Identifier: Apache-2.0
"""Transport: how stages get to the processes and devices that they run on.

One kind of thing is in each file:

- ``locations``: where a search measures. The user chooses one as the ``runner``.
- ``providers``: what opens sessions in other processes, for a location. ``server`` is the process
  that one of them starts on this machine.
- ``session``: a process in which stages run, this one or another, and calls to its C++ functions.
- ``session_handles``: the kernels and the memory of a session, by number.
- ``pool`` and ``remote_pool``: stage runners, in this process or on all devices, that do jobs.
- ``remote_model``: whole models, timed in a session.
"""
