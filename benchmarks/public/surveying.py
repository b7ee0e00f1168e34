# SPDX-License-Identifier: Apache-2.0
"""The command line of a survey: it tries models one by one, keeps a file, and writes its page."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from datetime import datetime, timezone
from pathlib import Path

import machine
from peer.instructions import add_option, limited
from peers import versions, whole
from public.record import Outcome, Survey, from_json
from tvm_ios.errors import OptionError, TvmIosError
from tvm_ios.support.files import replacing
from tvm_ios.target import available_cores


def parser(tool: str, description: str, peers: Sequence[str]) -> argparse.ArgumentParser:
    """Return the options that all surveys take."""
    options = argparse.ArgumentParser(prog=tool, description=description)
    options.add_argument("--models", metavar="NAME,...", help="default: all of the catalogue")
    options.add_argument("--peers", default=",".join(peers), metavar="NAME,...")
    options.add_argument("--threads", type=whole, default=available_cores(), metavar="N")
    options.add_argument("--rounds", type=whole, default=7, metavar="R")
    options.add_argument("--window", type=float, default=0.2, metavar="S")
    add_option(options)
    options.add_argument(
        "--json",
        type=Path,
        metavar="FILE",
        help="write all figures, after each model; models that the file has are not tried again",
    )
    options.add_argument("--page", type=Path, metavar="FILE", help="only write the page of --json")
    return options


def run(
    options: argparse.Namespace,
    tool: str,
    render: Callable[[Survey], str],
    survey_models: Callable[[argparse.Namespace, Survey | None], Survey],
) -> int:
    """Try models, or write the page of what was found out; return the exit status."""
    try:
        survey = _read(options.json, tool) if options.json and options.json.exists() else None
        if not options.page:
            survey = survey_models(options, survey)
        elif survey is None:
            raise OptionError("--page needs --json FILE, the file of a survey.")
        else:
            options.page.write_text(render(survey))
    except (TvmIosError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("interrupted; what was found out is in the file", file=sys.stderr)
        return 130
    if not options.page:
        print(render(survey), end="")
    return 0


def go_on(
    options: argparse.Namespace, survey: Survey | None, packages: Sequence[str] = ()
) -> Survey:
    """Return the survey to add to, which notes the commit; a new one if there is none."""
    if survey is None:
        return Survey(
            date=datetime.now(timezone.utc).isoformat(timespec="seconds"),
            machine=asdict(machine.describe()),
            threads=options.threads,
            settings={
                "rounds": options.rounds,
                "window_s": options.window,
                "avx2": options.avx2,
            },
            versions=versions(["sequential", *peers(options)], packages),
        )
    commit, known = versions([]).get("commit", ""), survey.versions.get("commit", "").split(", ")
    if commit and commit not in known:
        survey.versions["commit"] = ", ".join([*filter(None, known), commit])
    return survey


def peers(options: argparse.Namespace) -> list[str]:
    """Return the others that take part."""
    return limited([name for name in options.peers.split(",") if name], options)


def extend(survey: Survey, outcomes: Iterable[Outcome], path: Path | None) -> Survey:
    """Add what is found out to the survey, and write its file after each."""
    for outcome in outcomes:
        survey.outcomes.append(outcome)
        if path:
            with replacing(path) as (draft,):
                draft.write_text(json.dumps(survey.to_json(), indent=1) + "\n")
    return survey


def _read(path: Path, tool: str) -> Survey:
    try:
        return from_json(json.loads(path.read_text()))
    except (ValueError, KeyError, TypeError) as error:
        raise OptionError(f"{path} is no file of {tool} --json: {error}.") from error
