# SPDX-License-Identifier: Apache-2.0
"""The process that runs trials: a line of JSON in for each, and one out.

It runs many of them, as importing TVM takes longer than ten; a network that crashes or hangs takes
the process with it, and nothing else.
"""

from __future__ import annotations

import json
import os
import sys
from dataclasses import asdict

ENVIRONMENT = {
    "TVM_THREAD_POOL_SPIN_COUNT": "0",  # there are more threads than cores
    "TVM_BIND_THREADS": "0",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
}
"""What must be set before TVM and NumPy are loaded."""


def main() -> None:
    """Answer requests until there are no more."""
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # what libraries print is no answer
    from tvm_ios.support.threads import set_num_threads

    from .choices import MOST_WORKERS
    from .trial import Reduction, Trial

    set_num_threads(MOST_WORKERS)  # a thread's pool never grows
    print(json.dumps("ready"), file=answers)
    for line in sys.stdin:
        request = json.loads(line)
        outcome = Trial(request["seed"], Reduction(**request["reduction"])).run()
        print(json.dumps(asdict(outcome)), file=answers)
    os._exit(0)  # threads of a pool need not be waited for


if __name__ == "__main__":
    main()
