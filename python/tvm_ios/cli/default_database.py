# SPDX-License-Identifier: Apache-2.0
"""The database of measurements that commands use where none is named."""

from __future__ import annotations

import argparse
import errno
import logging
import os
from pathlib import Path

from ..database import MeasurementDatabase
from ..database.file import VERSION
from ..support.caches import cache_directory
from ..support.errors import OptionError

_logger = logging.getLogger(__name__)


def default_path() -> Path:
    """In the user's directory of caches, as the XDG base directory specification has it.

    A release that reads another version of the file has one of its own.

    Raises
    ------
    OptionError
        When the user has no home, as in some containers.
    """
    directory = cache_directory()
    if directory is None:
        raise OptionError(
            "This user has no home directory; name the database, or set XDG_CACHE_HOME."
        )
    return directory / f"measurements-{VERSION}.sqlite3"


def add_database(parser: argparse.ArgumentParser) -> None:
    """Add the arguments that name the measurement cache."""
    parser.add_argument(
        "--database",
        metavar="FILE",
        help="keep measurements in this file; what is in it is not measured again (default: "
        f"$XDG_CACHE_HOME/tvm-ios/measurements-{VERSION}.sqlite3, or in ~/.cache)",
    )
    parser.add_argument(
        "--no-database", action="store_true", help="neither use nor keep measurements"
    )


def chosen(args: argparse.Namespace) -> Path | None:
    """Return the checked path of a search's database; None for none.

    A directory of caches that cannot be used costs nothing but time: the search does without.

    Raises
    ------
    DatabaseError
        When the file that was named cannot be used, or the usual one is no database.
    OptionError
        When both a database and none is asked for.
    """
    if args.database is not None and args.no_database:
        raise OptionError("--database and --no-database exclude each other; give one.")
    if args.no_database:
        return None
    path = Path(args.database) if args.database is not None else _usual()
    if path is not None:
        MeasurementDatabase(path).close()
    return path


def _usual() -> Path | None:
    """Return the default path, with its directory made; None where that fails."""
    try:
        path = default_path()
    except OptionError as error:
        _logger.warning("No measurements are kept: %s", error)
        return None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        for needed in (path.parent, path):
            if needed.exists() and not os.access(needed, os.W_OK):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(needed))
    except OSError as error:
        _logger.warning("No measurements are kept: %s: %s.", error.filename, error.strerror)
        return None
    return path


def existing(named: str | None) -> MeasurementDatabase:
    """Return the database to read: the one that was named, or the default one."""
    return MeasurementDatabase(default_path() if named is None else named, create=False)
