"""`dataset.db` of a cluster-labelled dataset: its tables, and a reader that trusts nothing in it.

| table | |
|---|---|
| `dataset_info` | key, value (JSON): format_version, n_samples, n_clusters, embedding_dim, temperature, combined_weight, labels_sha256 |
| `embeddings_meta` | name, path (relative to the folder), rows, columns, dtype, sha256 |
| `samples` | id (0 to n − 1), text, suggestions (JSON list), metadata (JSON object), source_label and steering_label (float32, little endian) |
"""  # noqa: E501 - rows of a table

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

from midstep.core import strict_json
from midstep.core.errors import DatasetError, FormatError

__all__ = ["DATABASE_NAME", "FILES", "FORMAT_VERSION", "SCHEMA", "SampleDatabase"]

DATABASE_NAME = "dataset.db"
FORMAT_VERSION = 1
FILES = ("base_embeddings", "steering_embeddings", "centroid_embeddings")
"""Names in `embeddings_meta`."""
SCHEMA = """
CREATE TABLE dataset_info (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE embeddings_meta (
    name TEXT PRIMARY KEY, path TEXT NOT NULL, rows INTEGER NOT NULL, columns INTEGER NOT NULL,
    dtype TEXT NOT NULL, sha256 TEXT NOT NULL
) WITHOUT ROWID;
CREATE TABLE samples (
    id INTEGER PRIMARY KEY, text TEXT NOT NULL, suggestions TEXT NOT NULL, metadata TEXT NOT NULL,
    source_label BLOB NOT NULL, steering_label BLOB NOT NULL
);
"""
TABLES = ("dataset_info", "embeddings_meta", "samples")
LIMIT_S = 60.0
"""For one question to the database; a hostile one could otherwise run for ever."""
LARGEST_VALUE_BYTES = 16 * 1024 * 1024
_INSTRUCTIONS = 10_000
"""Of SQLite's machine between two looks at the clock."""


class SampleDatabase:
    """A `dataset.db`, opened read-only, by each process for itself.

    A connection must not cross a fork, so the process id decides whether there is one yet.

    Args:
        path: of the file.
        limit_s: for one question.
    """

    def __init__(self, path: Path, *, limit_s: float = LIMIT_S) -> None:
        self.path, self._limit_s = path, limit_s
        self._deadline_s = 0.0
        self._process = os.getpid()
        self._connection: sqlite3.Connection | None = None
        self._foreign: list[sqlite3.Connection] = []
        self._lock = threading.Lock()

    def info(self) -> dict[str, Any]:
        """`dataset_info`, its values parsed."""
        rows = self.rows("SELECT key, value FROM dataset_info")
        return {key: self._parsed(value, f"dataset_info[{key!r}]") for key, value in rows}

    def embeddings(self) -> dict[str, tuple[str, int, int, str, str]]:
        """Path, rows, columns, dtype and hash of every file of embeddings, by name."""
        rows = self.rows("SELECT name, path, rows, columns, dtype, sha256 FROM embeddings_meta")
        return {name: tuple(rest) for name, *rest in rows}

    def metadata(self, ids: list[int]) -> Iterator[tuple[int, dict[str, Any]]]:
        """Text, suggestions and metadata of these samples, in the order of their ids."""
        found = self.rows(
            "SELECT id, text, suggestions, metadata FROM samples "
            "WHERE id IN (SELECT value FROM json_each(?)) ORDER BY id",
            (strict_json.dumps(ids),),
        )
        for number, text, suggestions, extra in found:
            where = f"samples[{number}]"
            yield (
                number,
                {
                    "id": number,
                    "text": text,
                    "suggestions": self._parsed(suggestions, f"{where}.suggestions"),
                    "metadata": self._parsed(extra, f"{where}.metadata"),
                },
            )

    def rows(self, question: str, values: tuple[Any, ...] = ()) -> list[Any]:
        """All rows of an answer, in bounded time."""
        with self._asking() as connection:
            return connection.execute(question, values).fetchall()

    def close(self) -> None:
        """Close this process's connection; the next question opens another."""
        self._after_fork()
        with self._lock:
            if self._connection is not None:
                self._connection.close()
            self._connection = None

    def __del__(self) -> None:
        self.close()

    @contextmanager
    def _asking(self) -> Iterator[sqlite3.Connection]:
        self._after_fork()
        with self._lock:
            self._deadline_s = time.monotonic() + self._limit_s
            try:
                if self._connection is None:
                    self._connection = self._opened()
                yield self._connection
            except sqlite3.Error as error:
                raise DatasetError(f"{self.path} cannot be read: {error}") from None

    def _after_fork(self) -> None:
        """In a new process nothing of the former one's is used: neither connection nor lock."""
        if self._process == os.getpid():
            return
        self._lock = threading.Lock()
        if self._connection is not None:
            self._foreign.append(self._connection)  # closing it here is not ours to do
        self._connection, self._process = None, os.getpid()

    def _opened(self) -> sqlite3.Connection:
        if not self.path.is_file():
            raise DatasetError(
                f"{self.path} is missing; is {self.path.parent} a cluster-labelled dataset?"
            )
        address = f"file:{quote(str(self.path.resolve()))}?mode=ro"
        connection = sqlite3.connect(address, uri=True, check_same_thread=False)
        try:
            connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, LARGEST_VALUE_BYTES)
            connection.set_progress_handler(self._too_late, _INSTRUCTIONS)
            for setting in ("trusted_schema = OFF", "query_only = ON", "cell_size_check = ON"):
                connection.execute(f"PRAGMA {setting}")
            self._check_schema(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _too_late(self) -> int:
        return int(time.monotonic() > self._deadline_s)

    def _check_schema(self, connection: sqlite3.Connection) -> None:
        """Only plain tables: a view or a virtual table would run what the file says."""
        found = connection.execute("SELECT name, type, sql FROM sqlite_master").fetchall()
        plain = {
            name
            for name, kind, text in found
            if kind == "table" and not str(text).upper().startswith("CREATE VIRTUAL")
        }
        problems = [f"there is no table {name}" for name in TABLES if name not in plain]
        problems += [
            f"{name} is a {kind}, only plain tables are read"
            for name, kind, _ in found
            if kind in ("view", "trigger")
        ]
        if problems:
            raise DatasetError(
                f"{self.path} is no database of a cluster-labelled dataset", problems
            )

    def _parsed(self, text: Any, where: str) -> Any:
        try:
            return strict_json.loads(text)
        except (FormatError, TypeError) as error:
            raise DatasetError(f"{self.path}: {where} is {error}") from None

    def __getstate__(self) -> Mapping[str, Any]:
        return {"path": self.path, "limit_s": self._limit_s}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        self.__init__(state["path"], limit_s=state["limit_s"])  # type: ignore[misc]
