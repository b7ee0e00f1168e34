# SPDX-License-Identifier: Apache-2.0
"""Lets torch.compile fill its cache on disk for a network, beside what is not timed."""

from __future__ import annotations

import numpy as np

from gpu_phases.networks import arguments
from tvm_ios import zoo
from tvm_ios.baselines.gpu import gpu_peers


def main() -> None:
    """Compile, and forget what is compiled."""
    args = arguments(__doc__).parse_args()
    random = np.random.default_rng(0)
    inputs = [random.standard_normal(i.shape).astype(i.dtype) for i in zoo.inputs(args.network)]
    names = ["torch_reduce_overhead"]
    gpu_peers(f"zoo:{args.network}", None, inputs, args.device_id, args.precision, names=names)


if __name__ == "__main__":
    main()
