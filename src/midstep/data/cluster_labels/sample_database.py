"""`dataset.db` of a cluster-labelled dataset: its tables, and a reader that trusts nothing in it.

| table | |
|---|---|
| `dataset_info` | key, value (JSON): format_version, n_samples, n_clusters, embedding_dim, temperature, combined_weight, labels_sha256 |
| `embeddings_meta` | name, path (relative to the folder), rows, columns, dtype, sha256 |
| `samples` | id (0 to n − 1), text, suggestions (JSON list), metadata (JSON object), source_label and steering_label (float32, little endian) |
"""  # noqa: E501 - rows of a table

from __future__ import annotations

import hashlib
import os
import sqlite3
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import numpy as np

from midstep.core import strict_json
from midstep.core.errors import DatasetError, FormatError
from midstep.data.steering.storage.layout import StoredArray
from midstep.data.steering.storage.npy_files import MemmapReader
from midstep.data.steering.storage.tables import table_digest

if TYPE_CHECKING:
    from numpy.typing import NDArray


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
        self._parent_connections: list[sqlite3.Connection] = []
        self._lock = threading.Lock()

    def info(self) -> dict[str, Any]:
        """`dataset_info`, its values parsed."""
        rows = self.rows("SELECT key, value FROM dataset_info")
        return {key: self._parse(value, f"dataset_info[{key!r}]") for key, value in rows}

    def embeddings(self) -> dict[str, tuple[str, int, int, str, str]]:
        """Path, rows, columns, dtype and hash of every file of embeddings, by name."""
        rows = self.rows("SELECT name, path, rows, columns, dtype, sha256 FROM embeddings_meta")
        return {name: tuple(rest) for name, *rest in rows}

    def metadata(self, ids: list[int]) -> Iterator[tuple[int, dict[str, Any]]]:
        """Text, suggestions and metadata of these samples, in the order of their ids."""
        rows = self.rows(
            "SELECT id, text, suggestions, metadata FROM samples "
            "WHERE id IN (SELECT value FROM json_each(?)) ORDER BY id",
            (strict_json.dumps(ids),),
        )
        for number, text, suggestions, extra in rows:
            where = f"samples[{number}]"
            yield (
                number,
                {
                    "id": number,
                    "text": text,
                    "suggestions": self._parse(suggestions, f"{where}.suggestions"),
                    "metadata": self._parse(extra, f"{where}.metadata"),
                },
            )

    def rows(self, question: str, values: tuple[Any, ...] = ()) -> list[Any]:
        """All rows of an answer, in bounded time."""
        with self._connected() as connection:
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
    def _connected(self) -> Iterator[sqlite3.Connection]:
        self._after_fork()
        with self._lock:
            self._deadline_s = time.monotonic() + self._limit_s
            try:
                if self._connection is None:
                    self._connection = self._connect()
                yield self._connection
            except sqlite3.Error as error:
                raise DatasetError(f"{self.path} cannot be read: {error}") from None

    def _after_fork(self) -> None:
        """In a new process nothing of the former one's is used: neither connection nor lock."""
        if self._process == os.getpid():
            return
        self._lock = threading.Lock()
        if self._connection is not None:
            self._parent_connections.append(self._connection)  # closing it here is not ours to do
        self._connection, self._process = None, os.getpid()

    def _connect(self) -> sqlite3.Connection:
        if not self.path.is_file():
            raise DatasetError(
                f"{self.path} is missing; is {self.path.parent} a cluster-labelled dataset?"
            )
        address = f"file:{quote(str(self.path.resolve()))}?mode=ro"
        connection = sqlite3.connect(address, uri=True, check_same_thread=False)
        try:
            connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, LARGEST_VALUE_BYTES)
            connection.set_progress_handler(self._is_past_deadline, _INSTRUCTIONS)
            for setting in ("trusted_schema = OFF", "query_only = ON", "cell_size_check = ON"):
                connection.execute(f"PRAGMA {setting}")
            self._check_schema(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _is_past_deadline(self) -> int:
        return int(time.monotonic() > self._deadline_s)

    def _check_schema(self, connection: sqlite3.Connection) -> None:
        """Only plain tables: a view or a virtual table would run what the file says."""
        entries = connection.execute("SELECT name, type, sql FROM sqlite_master").fetchall()
        plain = {
            name
            for name, kind, text in entries
            if kind == "table" and not str(text).upper().startswith("CREATE VIRTUAL")
        }
        problems = [f"there is no table {name}" for name in TABLES if name not in plain]
        problems += [
            f"{name} is a {kind}, only plain tables are read"
            for name, kind, _ in entries
            if kind in ("view", "trigger")
        ]
        if problems:
            raise DatasetError(
                f"{self.path} is no database of a cluster-labelled dataset", problems
            )

    def _parse(self, text: Any, where: str) -> Any:
        try:
            return strict_json.loads(text)
        except (FormatError, TypeError) as error:
            raise DatasetError(f"{self.path}: {where} is {error}") from None

    def __getstate__(self) -> Mapping[str, Any]:
        return {"path": self.path, "limit_s": self._limit_s}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        self.__init__(state["path"], limit_s=state["limit_s"])  # type: ignore[misc]


_COUNTS = ("n_samples", "n_clusters", "embedding_dim")
_LABELS = ("source_label", "steering_label")
_SUM_TOLERANCE = 1e-4


def read_information(database: SampleDatabase) -> dict[str, Any]:
    """`dataset_info`, with everything in it that opening depends on."""
    info, where = database.info(), f"dataset_info of {database.path}"
    wanted = (*_COUNTS, "format_version", "combined_weight", "labels_sha256")
    problems = [f"{name} is missing" for name in wanted if name not in info]
    if info.get("format_version", FORMAT_VERSION) != FORMAT_VERSION:
        problems.append(f"format_version is {info['format_version']!r}, expected {FORMAT_VERSION}")
    for name in _COUNTS:
        value = info.get(name, 1)
        if not isinstance(value, int) or value < 1:
            problems.append(f"{name} is {value!r}, expected a whole number of at least 1")
    weight = info.get("combined_weight", 0.5)
    if not isinstance(weight, int | float) or not 0 <= weight <= 1:
        problems.append(f"combined_weight is {weight!r}, expected a number from 0 to 1")
    if problems:
        raise DatasetError(f"{where} is wrong", problems)
    return info


class EmbeddingFiles:
    """The `.npy` files that `embeddings_meta` names."""

    def __init__(self, folder: Path, database: SampleDatabase, info: Mapping[str, Any]) -> None:
        self.folder, self._info = folder, info
        self._entries = database.embeddings()
        self.checksums = {name: str(meta[4]) for name, meta in self._entries.items()}

    def read(self, *, mapped: bool, verify: bool) -> dict[str, NDArray[Any]]:
        """All arrays by name, or one error with everything that is wrong."""
        arrays, problems = {}, []
        for name in FILES:
            try:
                arrays[name] = self._read_one(name, mapped=mapped, verify=verify)
            except DatasetError as error:
                problems.append(str(error))
        if problems:
            raise DatasetError(
                f"the dataset in {self.folder} is not whole; restore it or build it again", problems
            )
        return arrays

    def _read_one(self, name: str, *, mapped: bool, verify: bool) -> NDArray[Any]:
        if name not in self._entries:
            raise DatasetError(f"embeddings_meta has no row {name}")
        relative, rows, columns, dtype, checksum = self._entries[name]
        path = self._inside(relative)
        expected = self._info["n_clusters" if name.startswith("centroid") else "n_samples"]
        if (rows, columns) != (expected, self._info["embedding_dim"]):
            raise DatasetError(
                f"embeddings_meta says {name} has the shape [{rows}, {columns}], dataset_info "
                f"[{expected}, {self._info['embedding_dim']}]"
            )
        any_matrix = StoredArray(
            name=path.stem, group="embeddings", kind="float", shape=(None, None)
        )
        array = MemmapReader(path.parent).read(any_matrix, mapped=mapped)
        stored, expected_array = (array.shape, array.dtype.name), ((rows, columns), dtype)
        if stored != expected_array:
            raise DatasetError(
                f"{path.name} holds {stored[1]} {list(stored[0])}, embeddings_meta says "
                f"{expected_array[1]} {list(expected_array[0])}"
            )
        if verify:
            _check_hash(path, checksum)
        return array

    def _inside(self, relative: Any) -> Path:
        """A path that a file names must stay in its folder."""
        given = Path(str(relative))
        path = self.folder / given
        inside = path.resolve().is_relative_to(self.folder.resolve())
        if given.is_absolute() or given.suffix != ".npy" or not inside:
            raise DatasetError(
                f"embeddings_meta names the file {str(relative)[:200]!r}, expected a .npy file in "
                "the dataset's folder, by its relative path"
            )
        return path


def _check_hash(path: Path, wanted: str) -> None:
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    if digest != wanted:
        raise DatasetError(
            f"{path.name} has changed since it was written: its SHA-256 is {digest[:16]}…, "
            f"embeddings_meta says {wanted[:16]}…"
        )


def read_labels(database: SampleDatabase, info: Mapping[str, Any]) -> NDArray[np.float32]:
    """[2, N, C]: source and steering labels of all samples."""
    count, clusters = info["n_samples"], info["n_clusters"]
    rows = database.rows("SELECT id, source_label, steering_label FROM samples ORDER BY id")
    if len(rows) != count or any(row[0] != at for at, row in enumerate(rows)):
        raise DatasetError(
            f"{database.path}: samples has {len(rows)} rows, expected the ids 0 to {count - 1}"
        )
    size = 4 * clusters
    for number, *pair in rows:
        for name, blob in zip(_LABELS, pair, strict=True):
            if not isinstance(blob, bytes) or len(blob) != size:
                raise DatasetError(
                    f"{database.path}: {name} of sample {number} is not {size} bytes of float32"
                )
    joined = [b"".join(row[part] for row in rows) for part in (1, 2)]
    labels = np.stack(
        [np.frombuffer(each, dtype="<f4").reshape(count, clusters) for each in joined]
    )
    labels = labels.astype(np.float32, copy=False)
    _check_labels(labels, database, str(info["labels_sha256"]))
    return labels


def _check_labels(labels: NDArray[np.float32], database: SampleDatabase, wanted: str) -> None:
    with np.errstate(invalid="ignore"):
        wrong = ~((labels >= 0).all(axis=2) & (np.abs(labels.sum(axis=2) - 1) <= _SUM_TOLERANCE))
    if wrong.any():
        which, row = np.argwhere(wrong)[0]
        raise DatasetError(
            f"{database.path}: {_LABELS[which]} of sample {row} sums to "
            f"{labels[which, row].sum():g}, expected shares that sum to 1"
        )
    if table_digest(labels) != wanted:
        raise DatasetError(
            f"{database.path}: the labels have changed since they were written; write them anew"
        )
