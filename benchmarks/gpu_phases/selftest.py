# SPDX-License-Identifier: Apache-2.0
"""The self-test of a GPU, with each check told of as it ends."""

from __future__ import annotations

import argparse
from dataclasses import asdict

from gpu_phases.messages import Channel
from tvm_ios import selftest


def main() -> None:
    """Say a message a check."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device-id", type=int, default=0)
    parser.add_argument("--cudnn", action="store_true")
    args = parser.parse_args()
    channel = Channel()
    for outcome in selftest.run(selftest.Settings("cuda", args.device_id, None, args.cudnn)):
        known = asdict(outcome)
        name = f"{known.pop('group')}: {known.pop('name')}"
        channel.say({"checks": {name: known}})


if __name__ == "__main__":
    main()
