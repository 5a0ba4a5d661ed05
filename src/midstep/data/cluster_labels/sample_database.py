"""`dataset.db` of a cluster-labelled dataset: its tables, and a reader that trusts nothing in it.

| table | columns |
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
from typing import Any, NamedTuple
from urllib.parse import quote

import numpy as np
from numpy.typing import NDArray

from midstep.core import strict_json
from midstep.core.errors import DatasetError
from midstep.core.field_checks import at_least, one_of, within
from midstep.core.files.untrusted_files import file_problem
from midstep.data.steering.storage.file_hashes import hash_problem
from midstep.data.steering.storage.layout import StoredArray
from midstep.data.steering.storage.npy_files import MemmapReader
from midstep.data.steering.storage.tables import table_digest
from midstep.data.text.text_files import parse_json

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
"""Time limit of one query: a malicious schema could make a query run without end."""
LARGEST_VALUE_BYTES = 16 * 1024 * 1024
"""Largest accepted value of a cell, so that one cell cannot fill the memory."""
_INSTRUCTIONS = 10_000
"""Instructions of SQLite's virtual machine between two checks of the time limit."""


class EmbeddingFile(NamedTuple):
    """One row of `embeddings_meta`."""

    name: str
    path: str
    rows: int
    columns: int
    dtype: str
    sha256: str


class SampleDatabase:
    """A `dataset.db`, opened read-only.

    SQLite connections must not be used after a fork, so each process opens a connection of its
    own; the process id shows whether it has one.

    Args:
        path: the file.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._deadline_s = 0.0
        self._process = os.getpid()
        self._connection: sqlite3.Connection | None = None
        self._parent_connections: list[sqlite3.Connection] = []
        self._lock = threading.Lock()

    def info(self) -> dict[str, Any]:
        """`dataset_info` with its values parsed."""
        rows = self.rows("SELECT key, value FROM dataset_info")
        return {key: self._parse(value, f"dataset_info[{key!r}]") for key, value in rows}

    def embeddings(self) -> dict[str, EmbeddingFile]:
        """`embeddings_meta` by name."""
        rows = self.rows("SELECT name, path, rows, columns, dtype, sha256 FROM embeddings_meta")
        return {row[0]: EmbeddingFile(*row) for row in rows}

    def metadata(self, ids: list[int]) -> Iterator[tuple[int, dict[str, Any]]]:
        """Id, and text, suggestions and metadata, of these samples, in the order of their ids."""
        rows = self.rows(
            "SELECT id, text, suggestions, metadata FROM samples "
            "WHERE id IN (SELECT value FROM json_each(?)) ORDER BY id",
            (strict_json.dumps(ids),),
        )
        for number, text, suggestions, extra in rows:
            row = {
                "id": number,
                "text": text,
                "suggestions": self._parse(suggestions, f"samples[{number}].suggestions"),
                "metadata": self._parse(extra, f"samples[{number}].metadata"),
            }
            yield number, row

    def rows(self, query: str, values: tuple[Any, ...] = ()) -> list[Any]:
        """All rows of a query, within the time limit."""
        with self._connected() as connection:
            return connection.execute(query, values).fetchall()

    def close(self) -> None:
        """Close the connection of this process; the next query opens another."""
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
            self._deadline_s = time.monotonic() + LIMIT_S
            try:
                if self._connection is None:
                    self._connection = self._connect()
                yield self._connection
            except sqlite3.Error as error:
                raise DatasetError(f"{self.path} cannot be read: {error}") from None

    def _after_fork(self) -> None:
        """In a forked process, drop the lock and the connection of the parent."""
        if self._process == os.getpid():
            return
        # Another thread of the parent may have held the lock at the fork; nobody would release it.
        self._lock = threading.Lock()
        if self._connection is not None:
            # Kept, because closing it here would release the file locks of the parent.
            self._parent_connections.append(self._connection)
        self._connection, self._process = None, os.getpid()

    def _connect(self) -> sqlite3.Connection:
        problem = file_problem(self.path)
        if problem is not None:
            raise DatasetError(
                f"{self.path.parent}: {problem}; name the folder of a cluster-labelled dataset"
            )
        # Immutable: SQLite opens no journal beside the file, which could be a pipe or a link.
        address = f"file:{quote(str(self.path.absolute()))}?mode=ro&immutable=1"
        connection = sqlite3.connect(address, uri=True, check_same_thread=False)
        try:
            connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, LARGEST_VALUE_BYTES)
            connection.set_progress_handler(
                lambda: int(time.monotonic() > self._deadline_s), _INSTRUCTIONS
            )
            # The file may come from elsewhere: its schema must not call functions, and damaged
            # pages must raise an error and not crash.
            for setting in ("trusted_schema = OFF", "query_only = ON", "cell_size_check = ON"):
                connection.execute(f"PRAGMA {setting}")
            self._check_schema(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _check_schema(self, connection: sqlite3.Connection) -> None:
        """Accept plain tables only: views, triggers and virtual tables run code of the file."""
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
        DatasetError.raise_if(
            f"{self.path} is not the database of a cluster-labelled dataset", problems
        )

    def _parse(self, text: Any, where: str) -> Any:
        return parse_json(text, f"{self.path}: {where}")

    def __reduce__(self) -> Any:
        return SampleDatabase, (self.path,)


_COUNTS = ("n_samples", "n_clusters", "embedding_dim")
_LABELS = ("source_label", "steering_label")
_SUM_TOLERANCE = 1e-4
"""Rounding of float32 labels: how far the sum of a row may be from 1."""


def read_information(database: SampleDatabase) -> dict[str, Any]:
    """Read `dataset_info`, and check the entries that opening the dataset depends on."""
    info = database.info()
    wanted = (*_COUNTS, "format_version", "combined_weight", "labels_sha256")
    problems = [
        *(f"{name} is missing" for name in wanted if name not in info),
        one_of("format_version", info.get("format_version", FORMAT_VERSION), (FORMAT_VERSION,)),
        *(at_least(name, info.get(name, 1), 1) for name in _COUNTS),
        within("combined_weight", info.get("combined_weight", 0.5), 0, 1),
    ]
    DatasetError.raise_if(f"dataset_info of {database.path} is wrong", problems)
    return info


def read_embeddings(
    folder: Path,
    files: Mapping[str, EmbeddingFile],
    info: Mapping[str, Any],
    *,
    mapped: bool,
    verify: bool,
) -> dict[str, NDArray[Any]]:
    """Read the arrays of all embedding files. One `DatasetError` lists everything that is wrong.

    Args:
        folder: the folder of the dataset.
        files: `embeddings_meta`.
        info: `dataset_info`.
        mapped: map the files; if False, read them into memory.
        verify: compare the files with their hashes.
    """
    arrays, problems = {}, []
    for name in FILES:
        rows = info["n_clusters" if name.startswith("centroid") else "n_samples"]
        shape = rows, info["embedding_dim"]
        if name not in files:
            problems.append(f"embeddings_meta has no row {name}")
            continue
        try:
            arrays[name] = _read_file(folder, files[name], shape, mapped=mapped, verify=verify)
        except DatasetError as error:
            problems.append(str(error))
    DatasetError.raise_if(
        f"the dataset in {folder} is incomplete or damaged; restore it or build it again", problems
    )
    return arrays


def _read_file(
    folder: Path, file: EmbeddingFile, expected: tuple[int, int], *, mapped: bool, verify: bool
) -> NDArray[Any]:
    path, shape = _path_inside(folder, file.path), (file.rows, file.columns)
    if shape != expected:
        raise DatasetError(
            f"embeddings_meta says {file.name} has the shape {list(shape)}, dataset_info "
            f"{list(expected)}"
        )
    any_matrix = StoredArray(path.stem, "embeddings", "float", (None, None))
    array = MemmapReader(path.parent).read(any_matrix, mapped=mapped)
    if (array.shape, array.dtype.name) != (shape, file.dtype):
        raise DatasetError(
            f"{path.name} holds {array.dtype.name} {list(array.shape)}, embeddings_meta says "
            f"{file.dtype} {list(shape)}"
        )
    problem = hash_problem(path, file.sha256, "embeddings_meta") if verify else None
    if problem is not None:
        raise DatasetError(problem)
    return array


def _path_inside(folder: Path, relative: Any) -> Path:
    """The path of a file that the database names. It must stay inside the folder."""
    given = Path(str(relative))
    path = folder / given
    is_inside = path.resolve().is_relative_to(folder.resolve())
    if given.is_absolute() or given.suffix != ".npy" or not is_inside:
        raise DatasetError(
            f"embeddings_meta names the file {str(relative)[:200]!r}, expected a .npy file in "
            "the dataset's folder, by its relative path"
        )
    return path


def read_labels(database: SampleDatabase, info: Mapping[str, Any]) -> NDArray[np.float32]:
    """Read the source and steering labels of all samples: [2, N, C]."""
    count, clusters = info["n_samples"], info["n_clusters"]
    rows = database.rows("SELECT id, source_label, steering_label FROM samples ORDER BY id")
    if len(rows) != count or any(row[0] != at for at, row in enumerate(rows)):
        raise DatasetError(
            f"{database.path}: samples has {len(rows)} rows, expected the ids 0 to {count - 1}"
        )
    size = 4 * clusters
    for number, *blobs in rows:
        for name, blob in zip(_LABELS, blobs, strict=True):
            if not isinstance(blob, bytes) or len(blob) != size:
                raise DatasetError(
                    f"{database.path}: {name} of sample {number} is not {size} bytes of float32"
                )
    joined = b"".join(row[part] for part in (1, 2) for row in rows)
    labels = np.frombuffer(joined, dtype="<f4").reshape(2, count, clusters)
    labels = labels.astype(np.float32, copy=False)
    _check_labels(labels, database, str(info["labels_sha256"]))
    return labels


def _check_labels(labels: NDArray[np.float32], database: SampleDatabase, expected: str) -> None:
    with np.errstate(invalid="ignore"):
        wrong = ~((labels >= 0).all(axis=2) & (np.abs(labels.sum(axis=2) - 1) <= _SUM_TOLERANCE))
    if wrong.any():
        which, row = np.argwhere(wrong)[0]
        raise DatasetError(
            f"{database.path}: {_LABELS[which]} of sample {row} sums to "
            f"{labels[which, row].sum():g}, expected shares that sum to 1"
        )
    if table_digest(labels) != expected:
        raise DatasetError(
            f"{database.path}: the labels have changed since they were written; build it again"
        )
