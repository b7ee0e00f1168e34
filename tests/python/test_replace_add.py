# SPDX-License-Identifier: Apache-2.0
"""Convolutions that are added up are computed as one, exactly; what is no such sum is left alone."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
from hypothesis import given, settings
from hypothesis import strategies as st
from tvm import relax

from support import NATIVE, TARGETS, assert_close, constant, isa_of, merging, poisoned, relax_module
from support import run_kernel, unpack, check_scheduled
from test_kernels_conv2d import Case, cases, reference
from tvm_ios.kernels.conv2d import Conv2d
from tvm_ios.kernels.conv2d_sum import conv2d_sum_kernel
from tvm_ios.scheduler import Scheduler

op = relax.op


def quick():
    def body(emit, x):
        x = emit(op.nn.max_pool2d(x, (3, 3), padding=1))
        y = emit(op.nn.avg_pool2d(x, (3, 3), padding=1))
        a = emit(op.nn.conv2d(x, constant(20, 20, 3, 3, seed=1, scale=0.2), padding=1))
        a = emit(op.add(a, constant(1, 20, 1, 1, seed=5)))
        b = emit(op.nn.conv2d(y, constant(20, 20, 1, 1, seed=2, scale=0.2)))
        c = emit(op.nn.conv2d(x, constant(20, 20, 1, 1, seed=3, scale=0.2)))
        s = emit(op.add(emit(op.add(a, b)), emit(op.add(c, x))))
        s = emit(op.nn.relu(s))
        return emit(op.nn.avg_pool2d(s, (2, 2)))

    return relax_module(body, (2, 20, 9, 10))


def test_quick():
    mod = quick()
    schedule = Scheduler(mod, NATIVE, cost_model=merging).search()
    print(schedule)
    check_scheduled(mod, schedule=schedule)
