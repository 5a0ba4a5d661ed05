"""The tables of a dataset folder in any storage form: opened, checked, read-only; their digests."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from midstep.core import strict_json
from midstep.core.errors import DatasetError
from midstep.core.files.untrusted_files import file_problem
from midstep.data.ragged import Ragged
from midstep.data.steering.storage.dataset_config import DatasetConfig, read_config
from midstep.data.steering.storage.file_hashes import hash_problem
from midstep.data.steering.storage.hdf5_file import Hdf5Reader
from midstep.data.steering.storage.layout import (
    FORMS,
    TABLES,
    ArrayReader,
    Form,
    StoredArray,
    canonical,
    stored_arrays,
)
from midstep.data.steering.storage.npy_files import MemmapReader
from midstep.data.steering.storage.pt_files import PtReader

DIGEST_BYTES = 8 * 1024 * 1024
"""Bytes hashed together: bounds the memory that a mapped table takes meanwhile."""
SAMPLED_ROWS = 1024
"""Rows that the digest of an unverified table is computed from."""

READERS: dict[Form, type[ArrayReader]] = {
    reader.form: reader for reader in (MemmapReader, PtReader, Hdf5Reader)
}


class Tables(Mapping[str, Any]):
    """Tables by name: arrays (int64, float32 or float16), and `Ragged` for the keyword ids.

    A `memmap` dataset is mapped. The other forms read a table into memory when it is first used.

    Args:
        folder: the folder of the dataset.
        config: its config.json.
        reader: reads its form.
    """

    def __init__(self, folder: Path, config: DatasetConfig, reader: ArrayReader) -> None:
        self.folder, self.config, self._reader = folder, config, reader
        self._cache: dict[str, Any] = {}

    @property
    def form(self) -> Form:
        """The storage form that was opened."""
        return self._reader.form

    def __getitem__(self, name: str) -> Any:
        if name not in TABLES:
            raise KeyError(name)
        if name not in self._cache:
            self._cache[name] = self.read(name, mapped=True)
        return self._cache[name]

    def __iter__(self) -> Iterator[str]:
        return iter(TABLES)

    def __len__(self) -> int:
        return len(TABLES)

    def _arrays(self, name: str) -> tuple[StoredArray, ...]:
        return stored_arrays(TABLES[name], self.config.counts)

    def label(self, name: str) -> str:
        """The file of a table, for messages."""
        first = self._arrays(name)[0]
        return f"{self._reader.file_of(first.name).name}{f':{name}' if self.form == 'hdf5' else ''}"

    def read(self, name: str, *, mapped: bool) -> Any:
        """Read a table again: mapped if the form allows it, or as a copy in memory."""
        parts = [
            _read_only(canonical(self._reader.read(each, mapped=mapped), each.kind))
            for each in self._arrays(name)
        ]
        return parts[0] if len(parts) == 1 else Ragged(*parts)

    def files(self) -> dict[str, Path]:
        """Every file of the dataset except config.json, by name."""
        paths = (self._reader.file_of(each.name) for name in self for each in self._arrays(name))
        return {path.name: path for path in paths}

    def digest(self, name: str, *, whole: bool = True) -> str:
        """The digest of a table's content: as recorded in config.json, else computed.

        Args:
            name: the table.
            whole: trust the recorded digest only if config.json also has the hashes of the files,
                and compute from all rows. If False, compute from about a thousand rows.
        """
        recorded = self.config.tables.get(name)
        files = {self._reader.file_of(each.name).name for each in self._arrays(name)}
        if recorded is not None and (files <= self.config.files.keys() or not whole):
            return recorded
        table = self[name]
        if whole or isinstance(table, Ragged) or len(table) <= SAMPLED_ROWS:
            return table_digest(table)
        return table_digest(table[np.linspace(0, len(table) - 1, SAMPLED_ROWS).astype(np.int64)])


def open_tables(
    folder: str | Path, form: Form | Literal["auto"] = "auto", *, verify: bool = True
) -> Tables:
    """Open a dataset. One `DatasetError` lists everything that is wrong with it.

    Args:
        folder: the folder with config.json and the tables.
        form: which files to read, if there are several forms; `auto` takes what config.json says,
            or else the first form that is present.
        verify: compare every file with its hash, if config.json has one. Presence, shapes and
            types are always checked.
    """
    folder = Path(folder)
    config = read_config(folder)
    tables = Tables(folder, config, READERS[_choose_form(folder, config, form)](folder))
    problems = [each for each in map(file_problem, tables.files().values()) if each is not None]
    # Shapes before hashes: a file of some terabytes, which costs nothing to make, is not read.
    problems = problems or _shape_problems(tables)
    if not problems and verify:
        problems = _hash_problems(tables)
    DatasetError.raise_if(
        f"the dataset in {folder} is incomplete or damaged; restore it or build it again", problems
    )
    return tables


def _choose_form(folder: Path, config: DatasetConfig, form: str) -> Form:
    if form in FORMS:
        return form
    if form != "auto":
        raise DatasetError(f"storage format {form!r} is unknown; use auto, {', '.join(FORMS)}")
    likely = (config.storage_format, *FORMS)
    present = (each for each in likely if READERS[each](folder).file_of("pair_index").is_file())
    return next(present, likely[0])


def _hash_problems(tables: Tables) -> list[str]:
    hashes = tables.config.files
    problems = (
        hash_problem(path, hashes[name], "config.json")
        for name, path in tables.files().items()
        if name in hashes
    )
    return [problem for problem in problems if problem is not None]


def _shape_problems(tables: Tables) -> list[str]:
    problems = []
    for name in tables:
        try:
            tables[name]
        except DatasetError as error:
            problems.append(str(error))
    return problems


def _read_only(array: NDArray[Any]) -> NDArray[Any]:
    # Loaders share these arrays; a write by one user of them would change every later batch.
    if array.flags.writeable:
        array.flags.writeable = False
    return array


def table_digest(table: Any) -> str:
    """SHA-256 of type, shape and values; the same for every form of a dataset.

    >>> table_digest(np.zeros(3, np.int64)) == table_digest(np.zeros((3, 1), np.int64))
    False
    """
    digest = hashlib.sha256()
    for part in table.parts().values() if isinstance(table, Ragged) else [table]:
        digest.update(f"{part.dtype.str}{list(part.shape)}".encode())
        rows = max(1, DIGEST_BYTES // max(1, part.nbytes // max(1, len(part))))
        for start in range(0, len(part), rows):
            digest.update(np.ascontiguousarray(part[start : start + rows]).data)
    return digest.hexdigest()


DIGEST_CHARS = 8
"""Characters of a digest in a fingerprint. A loader state, which holds one, stays under 1 KB."""


def data_fingerprint(
    digests: Mapping[str, str], settings: Mapping[str, Any], *, whole: bool = True
) -> dict[str, str]:
    """What identifies the data: short digests of the tables, in their order, and of the settings.

    Args:
        digests: the digest of every table.
        settings: the settings that batches depend on.
        whole: whether the digests cover all rows, or a sample of them.

    >>> data_fingerprint({"train_idx": "0123456789abcdef"}, {"n_neg": 4})["tables"]
    '01234567'
    """
    return {
        "of": "all rows" if whole else "some rows",
        "tables": "".join(digests[name][:DIGEST_CHARS] for name in TABLES if name in digests),
        "settings": " ".join(f"{name}={_short(value)}" for name, value in settings.items()),
    }


def check_fingerprint(saved: Mapping[str, str], now: Mapping[str, str]) -> None:
    """Raise a `DatasetError` that names the tables and settings that changed since `saved`."""
    if saved["of"] != now["of"]:
        raise DatasetError(
            f"the saved state has digests of {saved['of']}, the dataset now of {now['of']}; open "
            "it with the same 'verify', or convert it once, which records digests in config.json"
        )
    problems = [
        f"the table {name} has changed"
        for name, old, new in zip(
            TABLES, _split_digests(saved["tables"]), _split_digests(now["tables"]), strict=False
        )
        if old != new
    ]
    before, after = _parse_settings(saved["settings"]), _parse_settings(now["settings"])
    problems += [
        f"the setting {name} has changed"
        for name in {**before, **after}
        if before.get(name) != after.get(name)
    ]
    if problems or saved != now:
        raise DatasetError(
            "the saved state belongs to other data; use the same data, or start a new run",
            problems or ["the layout of the fingerprint differs"],
        )


def _short(value: Any) -> str:
    return hashlib.sha256(strict_json.dumps(value).encode()).hexdigest()[:DIGEST_CHARS]


def _split_digests(text: str) -> list[str]:
    return [text[at : at + DIGEST_CHARS] for at in range(0, len(text), DIGEST_CHARS)]


def _parse_settings(text: str) -> dict[str, str]:
    return dict(part.partition("=")[::2] for part in text.split())
