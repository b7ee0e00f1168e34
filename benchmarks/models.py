# SPDX-License-Identifier: Apache-2.0
"""Public models as they are: do they come in, how exact and how fast are they, beside others?

Each model is exported by PyTorch both ways, to ONNX and as a program, and compiled without a
search. All run on the same number of threads, each in its own process, in interleaved rounds.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from peers import progress
from public import page, surveying
from public.catalogue import MODELS, PublicModel, find
from public.exported import ExportedTrial
from public.record import WAYS, Outcome, Survey
from public.trial import Plan
from tvm_ios.errors import OptionError

_TOOL = "models.py"
_PEERS = ("onnxruntime", "openvino", "torch")
_PACKAGES = ("timm", "torchvision", "transformers")


def main(argv: Sequence[str] | None = None) -> int:
    """Try models, or write the page of what was found out; returns the exit status."""
    parser = surveying.parser(_TOOL, __doc__.split("\n")[0], _PEERS)
    parser.add_argument(
        "--ways", default=",".join(WAYS), metavar="NAME,...", help=f"of {', '.join(WAYS)}"
    )
    return surveying.run(parser.parse_args(argv), _TOOL, page.render, _survey)


def _survey(options: argparse.Namespace, survey: Survey | None) -> Survey:
    """Try the models that the survey does not have yet."""
    if not set(options.ways.split(",")) <= set(WAYS):
        raise OptionError(f"--ways {options.ways}: there are {' and '.join(WAYS)}.")
    survey = surveying.go_on(options, survey, _PACKAGES)
    known = {outcome.name for outcome in survey.outcomes}
    chosen = [model for model in _chosen(options.models) if model.name not in known]
    return surveying.extend(survey, _outcomes(chosen, options), options.json)


def _outcomes(models: Sequence[PublicModel], options: argparse.Namespace) -> Iterator[Outcome]:
    peers, ways = surveying.peers(options), options.ways.split(",")
    for model in models:
        say = progress(model.name)
        plan = Plan(peers, options.threads, options.rounds, options.window, say, ways)
        with tempfile.TemporaryDirectory() as directory:
            yield ExportedTrial(model, plan, Path(directory)).run()


def _chosen(names: str | None) -> list[PublicModel]:
    if names is None:
        return MODELS
    try:
        return [find(name) for name in names.split(",")]
    except KeyError as error:
        known = ", ".join(model.name for model in MODELS)
        raise OptionError(f"There is no model {error}; there are: {known}.") from error


if __name__ == "__main__":
    sys.exit(main())
