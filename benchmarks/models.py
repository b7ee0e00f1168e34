# SPDX-License-Identifier: Apache-2.0
"""Public models as they are: do they come in, how exact and how fast are they, beside others?

Each model is exported by PyTorch both ways, to ONNX and as a program, and compiled without a
search. All run on the same number of threads, each in its own process, in interleaved rounds.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime, timezone
from pathlib import Path

import machine
from peers import progress, versions, whole
from public import page
from public.catalogue import MODELS, PublicModel, find
from public.record import WAYS, Survey, from_json
from public.trial import Plan, Trial
from tvm_ios.errors import OptionError, TvmIosError
from tvm_ios.support.files import replacing
from tvm_ios.target import available_cores

_PEERS = ("onnxruntime", "openvino", "torch")
_PACKAGES = ("timm", "torchvision", "transformers")


def main(argv: Sequence[str] | None = None) -> int:
    """Try models, or write the page of what was found out; returns the exit status."""
    options = _parser().parse_args(argv)
    try:
        survey = _read(options.json) if options.json and options.json.exists() else None
        if not options.page:
            survey = _try(options, survey)
        elif survey is None:
            raise OptionError("--page needs --json FILE, the file of a survey.")
        else:
            options.page.write_text(page.render(survey))
    except (TvmIosError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("interrupted; what was found out is in the file", file=sys.stderr)
        return 130
    if not options.page:
        print(page.render(survey), end="")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--models", metavar="NAME,...", help="default: all of the catalogue")
    parser.add_argument("--peers", default=",".join(_PEERS), metavar="NAME,...")
    parser.add_argument(
        "--ways", default=",".join(WAYS), metavar="NAME,...", help=f"of {', '.join(WAYS)}"
    )
    parser.add_argument("--threads", type=whole, default=available_cores(), metavar="N")
    parser.add_argument("--rounds", type=whole, default=7, metavar="R")
    parser.add_argument("--window", type=float, default=0.2, metavar="S")
    parser.add_argument(
        "--json",
        type=Path,
        metavar="FILE",
        help="write all figures, after each model; models that the file has are not tried again",
    )
    parser.add_argument("--page", type=Path, metavar="FILE", help="only write the page of --json")
    return parser


def _try(options: argparse.Namespace, survey: Survey | None) -> Survey:
    """Try the models that the survey does not have yet."""
    peers = [name for name in options.peers.split(",") if name]
    ways = options.ways.split(",")
    if not set(ways) <= set(WAYS):
        raise OptionError(f"--ways {options.ways}: there are {' and '.join(WAYS)}.")
    if survey is None:
        survey = Survey(
            date=datetime.now(timezone.utc).isoformat(timespec="seconds"),
            machine=asdict(machine.describe()),
            threads=options.threads,
            settings={"rounds": options.rounds, "window_s": options.window},
            versions=versions(["sequential", *peers], _PACKAGES),
        )
    else:
        _note_commit(survey, versions([]).get("commit", ""))
    known = {outcome.name for outcome in survey.outcomes}
    for model in _chosen(options.models):
        if model.name in known:
            continue
        say = progress(model.name)
        plan = Plan(peers, options.threads, options.rounds, options.window, say, ways)
        with tempfile.TemporaryDirectory() as directory:
            survey.outcomes.append(Trial(model, plan, Path(directory)).run())
        if options.json:
            with replacing(options.json) as (draft,):
                draft.write_text(json.dumps(survey.to_json(), indent=1) + "\n")
    return survey


def _note_commit(survey: Survey, commit: str) -> None:
    """Add the commit at which a survey goes on to those that it has."""
    known = survey.versions.get("commit", "").split(", ")
    if commit and commit not in known:
        survey.versions["commit"] = ", ".join([*filter(None, known), commit])


def _chosen(names: str | None) -> list[PublicModel]:
    if names is None:
        return MODELS
    try:
        return [find(name) for name in names.split(",")]
    except KeyError as error:
        known = ", ".join(model.name for model in MODELS)
        raise OptionError(f"There is no model {error}; there are: {known}.") from error


def _read(path: Path) -> Survey:
    try:
        return from_json(json.loads(path.read_text()))
    except (ValueError, KeyError, TypeError) as error:
        raise OptionError(f"{path} is no file of models.py --json: {error}.") from error


if __name__ == "__main__":
    sys.exit(main())
