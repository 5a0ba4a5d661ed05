"""The cache file of the run index: SQLite, in the user's cache folder. It may be deleted any time.

Nothing in it is trusted. A damaged file, or one of another version, is deleted. A row whose CRC
does not fit is ignored. If the file stays locked, the index works without it.
"""

from __future__ import annotations

import json
import logging
import os
import re
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import NamedTuple
from zlib import crc32

from midstep.core.errors import StorageError
from midstep.core.files.user_state import hash_folder, user_folder

VERSION = 2
"""Version of the content; in the file name, so that two versions of midstep use two files."""
WAIT_S = 2.0
"""How long to wait for a file that another process has locked."""
_SCHEMA = "CREATE TABLE run (directory TEXT PRIMARY KEY, digest BLOB, history BLOB, crc INTEGER)"
_NETWORK_DISKS = re.compile(
    r"nfs4?|cifs|smb3|smbfs|lustre|gpfs|beegfs|ceph|afs|9p|fuse\.sshfs|(fuse\.)?glusterfs|pvfs2|panfs"
)
"""Types of file systems in `/proc/self/mounts`."""

_log = logging.getLogger("midstep.facts")


class CachedSummary(NamedTuple):
    """The summary of one run as it is stored."""

    digest: bytes
    """The summary as JSON."""
    history: bytes
    """The epoch history, packed."""


def cache_file(root: str | os.PathLike[str]) -> Path | None:
    """The cache file for an outputs folder; None if the index must stay in memory.

    It stays in memory if the user has no home folder, or if that is on a network disk, where
    locks of SQLite are not reliable.
    """
    try:
        folder = user_folder("cache")
    except StorageError:  # a user without a home, as in some containers
        return None
    if _is_network_disk(folder):
        return None
    return folder / f"runs-{VERSION}-{hash_folder(root)}.sqlite"


def _is_network_disk(folder: Path) -> bool:
    """Whether a folder is on a network disk; known on Linux only."""
    try:
        mounts = Path("/proc/self/mounts").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    # The longest mount point above the folder is the one it is on.
    real, best, kind = os.path.realpath(folder), "", ""
    for line in mounts.splitlines():
        parts = line.split(" ")
        if len(parts) > 2 and len(parts[1]) >= len(best):
            mount = parts[1].rstrip("/")
            if real == mount or real.startswith(f"{mount}/"):
                best, kind = parts[1], parts[2]
    return _NETWORK_DISKS.fullmatch(kind) is not None


class IndexCache:
    """Stores summaries by directory. Each call opens its own connection, so any thread may call."""

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self._is_failing = False

    def load(self) -> dict[str, CachedSummary]:
        """Every whole row; none if there is no file, or it cannot be used."""
        if self.path is None or not self.path.exists():
            return {}
        with self._guarded(), self._connection() as connection:
            rows = connection.execute("SELECT directory, digest, history, crc FROM run")
            return {
                directory: CachedSummary(digest, history)
                for directory, digest, history, crc in rows
                if _is_whole(directory, digest, history, crc)
            }
        return {}

    def store(self, rows: Mapping[str, CachedSummary], removed: Iterable[str]) -> bool:
        """Write rows and delete others in one transaction; False if it has to be tried again."""
        gone = [(directory,) for directory in removed if _is_utf8(directory)]
        if self.path is None or not (rows or gone):
            return True
        with self._guarded(), self._connection() as connection, connection:
            connection.executemany("DELETE FROM run WHERE directory = ?", gone)
            connection.executemany(
                "INSERT OR REPLACE INTO run VALUES (?, ?, ?, ?)",
                (
                    (directory, row.digest, row.history, _crc(directory, row.digest, row.history))
                    for directory, row in rows.items()
                    if _is_utf8(directory)
                ),
            )
            return True
        return False

    @contextmanager
    def _guarded(self) -> Iterator[None]:
        """Continue without the file if it is locked or the disk refuses; delete a damaged file."""
        try:
            yield
        except sqlite3.OperationalError as error:  # locked, full, read-only: logged once
            if not self._is_failing:
                _log.warning("the index of runs is kept in memory only: %s", error)
            self._is_failing = True
        except (sqlite3.DatabaseError, OSError, OverflowError, UnicodeError) as error:
            _log.warning("the cached index of runs is rebuilt: %s", error)
            self._remove()
        else:
            self._is_failing = False

    @contextmanager
    def _connection(self) -> Iterator[sqlite3.Connection]:
        assert self.path is not None  # noqa: S101 - both callers checked
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with closing(sqlite3.connect(self.path, timeout=WAIT_S)) as connection:
            # Another user may have put the file there: its schema must not call functions.
            connection.execute("PRAGMA trusted_schema = OFF")
            connection.execute("PRAGMA synchronous = OFF")  # what a power cut takes is rebuilt
            self._check(connection)
            yield connection

    def _check(self, connection: sqlite3.Connection) -> None:
        """Create the table in an empty file; raise if the file holds anything else."""
        schema = connection.execute("SELECT sql FROM sqlite_schema").fetchall()
        tables = [sql for (sql,) in schema if sql is not None]
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        if not schema and version == 0:
            with connection:  # two processes may find the same empty file
                connection.execute("BEGIN IMMEDIATE")
                if not connection.execute("SELECT 1 FROM sqlite_schema").fetchone():
                    connection.execute(_SCHEMA)
                    connection.execute(f"PRAGMA user_version = {VERSION}")
            return
        if tables != [_SCHEMA] or version != VERSION:
            raise sqlite3.DatabaseError(f"{self.path} is of version {version}, not {VERSION}")

    def _remove(self) -> None:
        if self.path is not None:
            for suffix in ("", "-journal", "-wal", "-shm"):
                # If one cannot be removed, the next start finds it damaged again.
                with suppress(OSError):
                    os.unlink(f"{self.path}{suffix}")  # noqa: PTH108 - a name, not a path


def _is_utf8(directory: str) -> bool:
    """Whether SQLite can store the name; a run with another name is read at every start."""
    return not any("\ud800" <= character <= "\udfff" for character in directory)


def _crc(directory: str, digest: bytes, history: bytes) -> int:
    head = json.dumps([VERSION, directory]).encode()
    return crc32(history, crc32(digest, crc32(head)))


def _is_whole(directory: object, digest: object, history: object, crc: object) -> bool:
    return (
        isinstance(directory, str)
        and isinstance(digest, bytes)
        and isinstance(history, bytes)
        and crc == _crc(directory, digest, history)
    )
