# SPDX-License-Identifier: Apache-2.0
"""The process that runs tests: a line of JSON in for each, and one out."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import asdict


def main() -> None:
    """Answer requests until there are no more."""
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # what libraries print is no answer
    from . import trial  # noqa: F401  (loads TVM)
    from .suites import find

    print(json.dumps("ready"), file=answers)
    for line in sys.stdin:
        request = json.loads(line)
        outcome = find(request["suite"]).outcome_of(request["name"], request["form"])
        print(json.dumps(asdict(outcome)), file=answers)
    os._exit(0)  # threads of a pool need not be waited for


if __name__ == "__main__":
    main()
