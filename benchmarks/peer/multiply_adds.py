# SPDX-License-Identifier: Apache-2.0
"""The limit, measured among the contenders: the machine that is busy for them is so for it."""

from __future__ import annotations

from peer.contender import Runner, Task
from peer.instructions import target
from tvm_ios.backend.cpu.measure.peak_flops import MultiplyAdds
from tvm_ios.support.threads import set_num_threads
from tvm_ios.target import resolve


def prepare(task: Task) -> Runner:
    loop = MultiplyAdds(resolve(target(), threads=task.threads))
    if task.threads > 1:
        ready = set_num_threads(task.threads)
        assert ready, "a new process has no pool yet"
    return Runner(loop, lambda _result: [], loop.flops)
