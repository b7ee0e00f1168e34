# SPDX-License-Identifier: Apache-2.0
"""A network without a search beside PyTorch and TensorRT, in the same rounds.

Ours is sequential, once in a CUDA graph and once launched kernel by kernel.
"""

from __future__ import annotations

import json
from typing import Any

from gpu_phases.networks import SEQUENTIAL, Unsearched, arguments, relative_error
from gpu_phases.tensorrt import tensorrt_run
from tvm_ios.baselines.gpu import gpu_peers
from tvm_ios_runtime.session import leaves


def main() -> None:
    """Print all timings as JSON."""
    parser = arguments(__doc__)
    parser.add_argument("--schedule-out", required=True, metavar="FILE")
    args = parser.parse_args()
    network = Unsearched(args)
    network.schedule.save(args.schedule_out)
    inputs = network.inputs()
    arrays = [tensor.numpy() for tensor in leaves(inputs)]
    peers = gpu_peers(f"zoo:{args.network}", None, arrays, args.device_id, args.precision)
    try:
        peers.ready["tensorrt"] = tensorrt_run(args.network, arrays, args.device_id, args.precision)
    except Exception as error:  # what its compiler raises is of many types
        peers.left_out["tensorrt"] = " ".join(str(error).split())[:300]
    outputs = {SEQUENTIAL: network.outputs(inputs)}
    outputs |= {name: peer.outputs() for name, peer in peers.ready.items()}
    rounds = network.variants.shared_rounds()
    assert rounds is not None, "the target is a GPU"
    timings = rounds.timings(peers.ready)
    result: dict[str, Any] = {
        "network": args.network,
        "timings": {name: timing.to_dict() for name, timing in timings.items()},
        "left_out": peers.left_out,
        "differences": {
            name: relative_error(found, outputs[SEQUENTIAL]) for name, found in outputs.items()
        },
        "discarded_samples": rounds.discarded,
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
