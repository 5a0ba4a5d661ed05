"""The index on disk: one SQLite file in the user's cache folder. It may go at any time.

Nothing in it is believed. A file that is damaged, or of another version, is thrown away; a row
whose CRC does not fit is not there; one that is locked for long is done without.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import NamedTuple
from zlib import crc32

__all__ = ["IndexCache", "KeptRow", "cache_file"]

VERSION = 1
"""Of what is kept; it is in the file's name, so that two versions of midstep do not fight."""
WAIT_S = 2.0
"""How long another process may hold the file before it is done without."""
_SCHEMA = "CREATE TABLE run (directory TEXT PRIMARY KEY, digest BLOB, history BLOB, crc INTEGER)"
_SHARED = frozenset(
    {"nfs", "nfs4", "cifs", "smb3", "smbfs", "lustre", "gpfs", "beegfs", "ceph", "afs", "9p"}
) | {"fuse.sshfs", "fuse.glusterfs", "glusterfs", "pvfs2", "panfs"}

_log = logging.getLogger("midstep.facts")


class KeptRow(NamedTuple):
    """The digest of one run as it is kept."""

    digest: bytes
    """JSON."""
    history: bytes
    """Packed."""


def cache_file(root: str | os.PathLike[str]) -> Path | None:
    """Where the index of an outputs root is kept; None where it must not be on disk.

    Locks of a shared disk are not to be relied on, so there the index stays in memory.
    """
    base = os.environ.get("XDG_CACHE_HOME")
    try:
        folder = Path(base) if base else Path.home() / ".cache"
    except RuntimeError:  # a user without a home, as in some containers
        return None
    if _is_shared(folder):
        return None
    real = os.path.realpath(root)
    digest = hashlib.blake2b(real.encode("utf-8", "surrogateescape"), digest_size=10).hexdigest()
    return folder / "midstep" / f"runs-{VERSION}-{digest}.sqlite"


def _is_shared(folder: Path) -> bool:
    """Whether a folder lies on a disk that other machines have, too; known for Linux only."""
    try:
        mounts = Path("/proc/self/mounts").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    real, best, kind = os.path.realpath(folder), "", ""
    for line in mounts.splitlines():
        parts = line.split(" ")
        if len(parts) > 2 and len(parts[1]) >= len(best):
            place = parts[1].rstrip("/")
            if real == place or real.startswith(f"{place}/"):
                best, kind = parts[1], parts[2]
    return kind in _SHARED


class IndexCache:
    """Keeps digests by directory. A connection lives no longer than a call; any thread may call."""

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self._is_failing = False

    def load(self) -> dict[str, KeptRow]:
        """Every row that is whole; none where there is no file, or one that cannot be used."""
        if self.path is None or not self.path.exists():
            return {}
        with self._guarded(), self._connection() as connection:
            found = connection.execute("SELECT directory, digest, history, crc FROM run")
            return {
                directory: KeptRow(digest, history)
                for directory, digest, history, crc in found
                if _is_whole(directory, digest, history, crc)
            }
        return {}

    def store(self, rows: Mapping[str, KeptRow], removed: Iterable[str]) -> bool:
        """Put rows in and take others out, at once or not at all; False: try again later."""
        gone = [(directory,) for directory in removed if _can_be_written(directory)]
        if self.path is None or not (rows or gone):
            return True
        with self._guarded(), self._connection() as connection, connection:
            connection.executemany("DELETE FROM run WHERE directory = ?", gone)
            connection.executemany(
                "INSERT OR REPLACE INTO run VALUES (?, ?, ?, ?)",
                (
                    (directory, row.digest, row.history, _crc(directory, row.digest, row.history))
                    for directory, row in rows.items()
                    if _can_be_written(directory)
                ),
            )
            return True
        return False

    @contextmanager
    def _guarded(self) -> Iterator[None]:
        """Do without the file when it is locked or the disk refuses; throw a damaged one away."""
        try:
            yield
        except sqlite3.OperationalError as error:  # locked, full, read-only: said once
            if not self._is_failing:
                _log.warning("the index of runs is kept in memory only: %s", error)
            self._is_failing = True
        except (sqlite3.DatabaseError, OSError, OverflowError, UnicodeError) as error:
            _log.warning("the index of runs is made anew: %s", error)
            self._remove()
        else:
            self._is_failing = False

    @contextmanager
    def _connection(self) -> Iterator[sqlite3.Connection]:
        assert self.path is not None  # noqa: S101 - both callers have asked
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with closing(sqlite3.connect(self.path, timeout=WAIT_S)) as connection:
            connection.execute("PRAGMA trusted_schema = OFF")
            connection.execute("PRAGMA synchronous = OFF")  # what a power cut takes is made anew
            self._check(connection)
            yield connection

    def _check(self, connection: sqlite3.Connection) -> None:
        """An empty file gets our table; one with anything else in it is no index of ours."""
        found = connection.execute("SELECT sql FROM sqlite_schema").fetchall()
        tables = [sql for (sql,) in found if sql is not None]
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        if not found and version == 0:
            with connection:
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
                with suppress(OSError):  # what cannot be removed is damaged at the next look, too
                    os.unlink(f"{self.path}{suffix}")  # noqa: PTH108 - a name, not a path


def _can_be_written(directory: str) -> bool:
    """A name that is no UTF-8 is not kept; such a run is read at every start."""
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
