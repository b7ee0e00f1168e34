# SPDX-License-Identifier: Apache-2.0
"""Makes any Python process one to which the fake driver is CUDA.

Python imports this module when it starts, from a directory on ``PYTHONPATH``; see
``support.cuda.fake_driver.with_fake_driver``. Device code is then compiled for the host, and
PyTorch is hidden: one that is built for CUDA would bring CUDA's own libraries in.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

from tvm_ios_env.torchless import hide_torch

_COMPILER = "tvm.support.nvcc"  # registers the function that is overridden here


class _OurCompiler(importlib.abc.MetaPathFinder):
    """Overrides TVM's compiler of device code once TVM has registered it."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, _target: object = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name != _COMPILER:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path)
        assert spec is not None
        assert spec.loader is not None
        execute = spec.loader.exec_module

        def execute_and_override(module: ModuleType) -> None:
            execute(module)
            _override()

        spec.loader.exec_module = execute_and_override
        return spec


def _override() -> None:
    import tvm_ffi

    from support.cuda.compile import compile_kernels

    fake_driver = Path(os.environ["TVM_IOS_FAKE_DRIVER"])

    def compile_for_host(code: str, *_options: object) -> bytes:
        return compile_kernels(code, fake_driver)

    tvm_ffi.register_global_func("tvm_callback_cuda_compile", compile_for_host, override=True)


hide_torch()
sys.meta_path.insert(0, _OurCompiler())
