# SPDX-License-Identifier: Apache-2.0
"""Vector instructions that contenders may use: all that the processor has, or those of AVX2.

Ours is compiled for a processor that has no more, and OpenVINO is told. ONNX Runtime and
torch.compile look at the processor themselves, and are left out. OpenVINO's library for products of
float32 matrices looks at the processor, too: on transformers it is faster than AVX2 can be.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Sequence

from peer.contender import COMPILED

AVX2 = "AVX2"
_TARGET = "TVM_IOS_BENCHMARK_TARGET"  # which all processes see
_OPENVINO = "ONEDNN_MAX_CPU_ISA"
_LIMITED = (*COMPILED, "openvino")


def add_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--avx2",
        action="store_true",
        help="use no wider vectors than those of AVX2: ours and OpenVINO alone take part",
    )


def limited(names: Sequence[str], options: argparse.Namespace) -> list[str]:
    """Return those of the contenders that take part, and limit them if the option is given."""
    if not options.avx2:
        return list(names)
    os.environ[_TARGET] = json.dumps({"kind": "llvm", "mcpu": "znver3"})
    os.environ[_OPENVINO] = AVX2
    return [name for name in names if name in _LIMITED]


def target() -> str:
    """Return the target of what we compile."""
    return os.environ.get(_TARGET, "llvm")
