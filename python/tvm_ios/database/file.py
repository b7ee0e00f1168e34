# SPDX-License-Identifier: Apache-2.0
"""The database file: creation, recognition and checks; other files are rejected unchanged.

A file is checked before SQLite may write to it, because SQLite would recover a journal that another
program left beside its database. The first 100 bytes identify the file. They are valid from the
first transaction on, which is made before the file is switched to write-ahead logging.

If several machines may write to the file, a rollback journal replaces the write-ahead log, because
the index of the log is in memory that machines do not share (see `filesystem`). Readers and writers
then wait for each other, by file locks.
"""

from __future__ import annotations

import os
import sqlite3
import time
from contextlib import closing, suppress
from pathlib import Path

from ..support.errors import DatabaseError
from .filesystem import is_local

APPLICATION_ID = 0x74694F53  # "tiOS"
VERSION = 2
BUSY_SECONDS = 30.0  # other processes lock the file for milliseconds

_MAGIC = b"SQLite format 3\0"
_HEADER_BYTES = 100
_LOGGED = 2  # the value of two header bytes of a file with a write-ahead log
_ATTEMPTS, _PAUSE = 3, 0.05  # seconds

_SCHEMA = {
    "device": """CREATE TABLE device (
 id INTEGER PRIMARY KEY,
 cpu TEXT NOT NULL,
 target TEXT NOT NULL,
 threads INTEGER NOT NULL,
 tvm_ios TEXT NOT NULL,
 tvm TEXT NOT NULL,
 UNIQUE (cpu, target, threads, tvm_ios, tvm)
)""",
    "stage": """CREATE TABLE stage (
 device INTEGER NOT NULL REFERENCES device (id) ON DELETE CASCADE,
 key TEXT NOT NULL,
 stage TEXT NOT NULL,
 samples TEXT NOT NULL,
 refined INTEGER NOT NULL,
 measured REAL NOT NULL,
 features TEXT,
 PRIMARY KEY (device, key)
) WITHOUT ROWID""",
}


def connect(path: Path, *, create: bool) -> sqlite3.Connection:
    """Open the database at ``path``.

    Parameters
    ----------
    path : Path
        The file.
    create : bool
        Whether to create the file if it does not exist. Without it, the connection writes nothing.

    Raises
    ------
    DatabaseError
        If the file is not a measurement database, is damaged or has another version, in which case
        it is left unchanged; or if it cannot be opened or created.
    """
    is_new = _is_new(path, create)
    if is_new and create:
        _create(path)
    else:
        _check_content(path)
    try:
        if not create:
            return _open(path, _reading(path))
        connection = _open(path, "mode=rw")
        try:
            _switch_journal(connection, path)
        except sqlite3.Error:
            connection.close()
            raise
    except sqlite3.Error as error:
        raise DatabaseError(f"The database {path} cannot be opened: {error}.") from error
    return connection


def _is_new(path: Path, create: bool) -> bool:
    """Return whether the database must still be created, or its creation completed."""
    if path.is_dir():
        raise DatabaseError(f"{path} is a directory; name a file for the database.")
    missing = f"There is no database {path}; use --database to create one."
    if not path.exists():
        if not create:
            raise DatabaseError(missing)
        if not path.parent.is_dir():
            raise DatabaseError(f"There is no directory {path.parent} for the database; create it.")
        return True
    if not path.is_file():
        raise DatabaseError(f"{path} is not a regular file; name another for the database.")
    try:
        with path.open("rb") as file:
            header = file.read(_HEADER_BYTES)
    except OSError as error:
        raise DatabaseError(f"The database {path} cannot be read: {error.strerror}.") from error
    if not header and not create:
        raise DatabaseError(missing)
    if not header:
        return True  # another process is creating it, or was killed while it did
    _check_header(path, header)
    return os.path.exists(f"{path}-journal")


def _check_header(path: Path, header: bytes) -> None:
    ours = header.startswith(_MAGIC) and len(header) == _HEADER_BYTES
    if not ours or int.from_bytes(header[68:72], "big") != APPLICATION_ID:
        raise DatabaseError(f"{path} is not a measurement database; name another file.")
    version = int.from_bytes(header[60:64], "big")
    if version != VERSION:
        raise DatabaseError(
            f"The database {path} has version {version}, but this tvm_ios reads version "
            f"{VERSION}; name another file."
        )


def _check_content(path: Path) -> None:
    """Raise DatabaseError if the file is damaged, without writing to it.

    Another process may start to write meanwhile, so a damaged file is checked again.
    """
    for attempt in range(_ATTEMPTS):
        try:
            problem = _problem(path)
        except sqlite3.OperationalError as error:
            problem = f"cannot be read: {error}"
        except sqlite3.DatabaseError:
            problem = "is damaged; delete it or name another file"
        if problem is None:
            return
        if attempt + 1 < _ATTEMPTS:
            time.sleep(_PAUSE)
    raise DatabaseError(f"The database {path} {problem}.")


def _reading(path: Path) -> str:
    """Return the parameter by which SQLite reads a file and writes nothing.

    Where a write-ahead log is missing, SQLite would create one, unless the file is immutable.
    """
    missing = _is_logged(path) and not os.path.exists(f"{path}-wal")
    return "immutable=1" if missing else "mode=ro"


def _is_logged(path: Path) -> bool:
    """Return whether the file uses a write-ahead log."""
    try:
        with path.open("rb") as file:
            return _LOGGED in file.read(_HEADER_BYTES)[18:20]
    except OSError as error:
        raise DatabaseError(f"The database {path} cannot be read: {error.strerror}.") from error


def _problem(path: Path) -> str | None:
    with closing(_open(path, _reading(path))) as connection:
        (result,) = connection.execute("PRAGMA quick_check(1)").fetchone()
        if result != "ok":
            return "is damaged; delete it or name another file"
        tables = dict(connection.execute("SELECT name, sql FROM sqlite_master WHERE sql NOT NULL"))
        return None if tables == _SCHEMA else "does not have the expected tables; name another file"


def _create(path: Path) -> None:
    """Create the tables unless another process has created them meanwhile."""
    try:
        with closing(_open(path, "mode=rwc")) as connection:
            connection.execute("BEGIN IMMEDIATE")
            if not connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
                for statement in _SCHEMA.values():
                    connection.execute(statement)
                connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
                connection.execute(f"PRAGMA user_version = {VERSION}")
            connection.execute("COMMIT")
    except sqlite3.Error as error:
        with suppress(OSError):
            if path.stat().st_size == 0:
                path.unlink()
        raise DatabaseError(f"The database {path} cannot be created: {error}.") from error


def _open(path: Path, parameter: str) -> sqlite3.Connection:
    """Open a connection without Python's implicit transactions, for one thread at a time."""
    return sqlite3.connect(
        f"{path.resolve().as_uri()}?{parameter}",
        uri=True,
        timeout=BUSY_SECONDS,
        isolation_level=None,
        check_same_thread=False,
    )


def _switch_journal(connection: sqlite3.Connection, path: Path) -> None:
    """Select a write-ahead log if it is safe; readers and writers then do not block each other.

    A power failure may lose the last measurements in a log; a killed process loses none.
    """
    if is_local(path):
        _switch(connection, "WAL")
        connection.execute("PRAGMA synchronous = NORMAL")
    else:
        _leave_log(connection, path)
        connection.execute("PRAGMA synchronous = FULL")
    connection.execute("PRAGMA foreign_keys = ON")


def _leave_log(connection: sqlite3.Connection, path: Path) -> None:
    """Switch to a rollback journal; a log that another file system left is merged into the file.

    A connection with exclusive access reads the log without an index in shared memory.
    """
    if _is_logged(path):
        connection.execute("PRAGMA locking_mode = EXCLUSIVE")
    _switch(connection, "DELETE")
    connection.execute("PRAGMA locking_mode = NORMAL")
    connection.execute("SELECT count(*) FROM sqlite_master").fetchone()  # releases the lock


def _switch(connection: sqlite3.Connection, mode: str) -> None:
    """Switch the journal mode; retry while the file is locked, because SQLite does not."""
    deadline = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            connection.execute(f"PRAGMA journal_mode = {mode}")
            break
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > deadline:
                raise
            time.sleep(_PAUSE)
