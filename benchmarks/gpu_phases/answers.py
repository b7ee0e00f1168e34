# SPDX-License-Identifier: Apache-2.0
"""Whether a network without a search answers as PyTorch does: warmed up, captured, and replayed."""

from __future__ import annotations

import json
from typing import Any

from gpu_phases.networks import Reference, Unsearched, arguments, relative_error
from gpu_phases.steps import TOLERANCE

_IMAGES = 4


def main() -> None:
    """Print the errors as JSON."""
    args = arguments(__doc__).parse_args()
    network, reference = Unsearched(args), Reference(args.network)
    errors = []
    for seed in range(_IMAGES):
        inputs = network.inputs(seed)
        errors.append(relative_error(network.outputs(inputs), reference(inputs)))
    result: dict[str, Any] = {
        "network": args.network,
        "reference": reference.name,
        "max_rel_errors": errors,
        "kernels": {op.name: op.kernel for op in network.schedule.operators},
    }
    worst = max(errors, key=lambda error: (error != error, error))  # NaN is the worst
    if not worst <= TOLERANCE[args.precision]:
        result["failure"] = f"off by {worst:.1e} of the largest output of {reference.name}"
    print(json.dumps(result))


if __name__ == "__main__":
    main()
