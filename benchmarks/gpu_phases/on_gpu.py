# SPDX-License-Identifier: Apache-2.0
"""A network on a GPU without a search and after it, beside PyTorch and TensorRT.

It says a message a stage, what is known soonest first. A search adds what it measures to a
database, so that one that is cut goes on.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
import traceback
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

from gpu_phases.messages import Channel
from gpu_phases.networks import arguments, arrays, complaint, relative_error, scheduler
from gpu_phases.tensorrt import tensorrt_run
from tvm_ios.baselines.contenders import QUICK_NAMES, Peers
from tvm_ios.baselines.gpu import gpu_peers
from tvm_ios.compiler.compare import BARRIERS, GREEDY, SCHEDULED, SEQUENTIAL
from tvm_ios.measure.timing.models import Variants
from tvm_ios.schedule import Schedule

UNSEARCHED, BESIDE, FOUND, SEARCHED = "unsearched", "unsearched, beside peers", "found", "searched"


class Contest:
    """The stages of a network.

    Parameters
    ----------
    args : argparse.Namespace
    channel : Channel
    """

    def __init__(self, args: argparse.Namespace, channel: Channel) -> None:
        self._args, self._channel, self._begin = args, channel, time.monotonic()
        self._scheduler = scheduler(args, args.database)
        self._inputs = self._scheduler.random_inputs(0)
        self._say("prepared", operators=len(self._scheduler.graph.operators))
        self._unsearched = self._scheduler.unsearched()
        self._variants = self._scheduler.compile({SEQUENTIAL: self._unsearched})
        self._outputs = arrays(self._variants(SEQUENTIAL, self._inputs))
        self._peers = Peers()

    def unsearched(self) -> None:
        """Time the network as it is without a search: alone, and beside others."""
        self._unsearched.save(self._args.schedules / f"{self._args.name}-unsearched.json")
        self._say(UNSEARCHED, **self._timings(self._variants))
        self._peers = self._made_ready()
        differences = {
            name: relative_error(peer.outputs(), self._outputs)
            for name, peer in self._peers.ready.items()
        }
        known = {"left_out": self._peers.left_out, "differences": differences}
        self._say(BESIDE, **known, **self._timings(self._variants))

    def searched(self) -> None:
        """Search, and time what is found in the same rounds as all others."""
        found = self._scheduler.search()
        found.save(self._args.schedules / f"{self._args.name}.json")
        self._say(FOUND, **_described(found))
        schedules = {
            SEQUENTIAL: self._scheduler.sequential(),
            GREEDY: self._scheduler.greedy(),
            SCHEDULED: found,
            BARRIERS: replace(found, synchronization="barrier"),
        }
        if found.synchronization == "barrier":
            del schedules[BARRIERS]
        variants = self._scheduler.compile(schedules)
        error = relative_error(arrays(variants(SCHEDULED, self._inputs)), self._outputs)
        self._say(SEARCHED, max_rel_error=error, **self._timings(variants))
        self._channel.say(complaint(error, self._args.precision, "the unsearched network"))

    def _made_ready(self) -> Peers:
        args, inputs = self._args, arrays(self._inputs)
        model, where = f"zoo:{args.network}", (args.device_id, args.precision)
        peers = gpu_peers(model, None, inputs, *where, names=QUICK_NAMES)
        try:
            run = tensorrt_run(args.network, inputs, args.device_id, args.precision)
            peers.ready["tensorrt"] = run
        except Exception as error:  # what its compiler raises is of many types
            peers.left_out["tensorrt"] = " ".join(str(error).split())[:300]
        return peers

    def _timings(self, variants: Variants) -> dict[str, Any]:
        rounds = variants.shared_rounds()
        assert rounds is not None, "the target is a GPU"
        timings = rounds.timings(self._peers.ready)
        told = {name: timing.to_dict() for name, timing in timings.items()}
        return {"timings": told, "discarded_samples": rounds.discarded}

    def _say(self, stage: str, **found: Any) -> None:
        at = round(time.monotonic() - self._begin, 1)
        self._channel.say({"stages": {stage: {"at_s": at, **found}}})


def _described(found: Schedule) -> dict[str, Any]:
    return {
        "search_s": round(found.search_seconds or 0.0, 1),
        "measurements": found.measurements,
        "stages": len(found.stages),
        "groups": [len(stage.groups) for stage in found.stages],
        "partitionings": Counter(stage.partitioning for stage in found.stages),
        "estimates": dict(found.estimates),
    }


def main() -> None:
    """Run the stages."""
    parser = arguments(__doc__)
    parser.add_argument("--name", required=True, help="of the schedules' files")
    parser.add_argument("--schedules", type=Path, required=True, help="folder for schedules")
    parser.add_argument("--database", help="search, and keep what is measured there")
    args = parser.parse_args()
    contest = Contest(args, Channel())
    contest.unsearched()
    if args.database is not None:
        contest.searched()


if __name__ == "__main__":
    status = 0
    try:
        main()
    except Exception as error:
        traceback.print_exc()
        print(f"error: {' '.join(str(error).split())}", file=sys.stderr)
        status = 1
    sys.stderr.flush()
    os._exit(status)  # a device that has failed may block the interpreter's end
