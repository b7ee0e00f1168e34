# SPDX-License-Identifier: Apache-2.0
"""Models on a machine that others use: three runtimes in turns beside the same neighbours.

:mod:`.networks` are run by :mod:`.runtimes`, each in a process of its own (:mod:`.worker`), under
:mod:`.conditions`: beside busy processes (:mod:`.neighbours`), within a quota of processor time
(:mod:`.limits`), called by several threads (:mod:`.calls`). :mod:`.rounds` lets them take turns.
"""
