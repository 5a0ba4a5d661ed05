"""The tables of a dataset folder, whatever their form: opened, checked, read-only."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, cast

import numpy as np

from midstep.core import strict_json
from midstep.core.errors import DatasetError
from midstep.data.ragged import Ragged
from midstep.data.steering.storage.dataset_config import DatasetConfig, read_config
from midstep.data.steering.storage.hdf5_file import Hdf5Reader
from midstep.data.steering.storage.layout import (
    FORMS,
    TABLES,
    Form,
    StoredArray,
    canonical,
    stored_arrays,
)
from midstep.data.steering.storage.npy_files import MemmapReader
from midstep.data.steering.storage.pt_files import PtReader

if TYPE_CHECKING:
    from numpy.typing import NDArray


DIGEST_BYTES = 8 * 1024 * 1024
SAMPLED_ROWS = 1024


class Reader(Protocol):
    """One physical form."""

    form: Form

    def file_of(self, name: str) -> Path:
        """The file that holds an array."""
        ...

    def has(self, array: StoredArray) -> bool:
        """Whether that file is there."""
        ...

    def read(self, array: StoredArray, *, mapped: bool) -> NDArray[Any]:
        """The array, its shape checked before anything is read."""
        ...


READERS: dict[Form, Any] = {"memmap": MemmapReader, "pt": PtReader, "hdf5": Hdf5Reader}


class Tables(Mapping[str, Any]):
    """Tables by name: arrays (int64, float32 or float16), and `Ragged` for the keyword ids.

    A `memmap` dataset is mapped; the other forms are read when a table is first asked for.

    Args:
        folder: of the dataset.
        config: its config.json.
        reader: of its form.
    """

    def __init__(self, folder: Path, config: DatasetConfig, reader: Reader) -> None:
        self.folder, self.config, self._reader = folder, config, reader
        self._cache: dict[str, Any] = {}

    @property
    def form(self) -> Form:
        """The physical form that was opened."""
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

    def label(self, name: str) -> str:
        """The file of a table, for messages."""
        first = stored_arrays(TABLES[name], self.config.counts)[0]
        return f"{self._reader.file_of(first.name).name}{f':{name}' if self.form == 'hdf5' else ''}"

    def read(self, name: str, *, mapped: bool) -> Any:
        """A table anew: mapped where the form can be, or a copy in memory."""
        arrays = stored_arrays(TABLES[name], self.config.counts)
        parts = [
            _read_only(canonical(self._reader.read(each, mapped=mapped), each.kind))
            for each in arrays
        ]
        return parts[0] if len(parts) == 1 else Ragged(*parts)

    def files(self) -> dict[str, Path]:
        """Every file of the dataset but config.json, by name."""
        paths = {}
        for spec in TABLES.values():
            for array in stored_arrays(spec, self.config.counts):
                path = self._reader.file_of(array.name)
                paths[path.name] = path
        return paths

    def _has_file_hashes(self, name: str) -> bool:
        arrays = stored_arrays(TABLES[name], self.config.counts)
        return all(self._reader.file_of(each.name).name in self.config.files for each in arrays)

    def digest(self, name: str, *, whole: bool = True) -> str:
        """Of a table's content: as noted in config.json, else computed.

        Args:
            name: of the table.
            whole: believe the note only where a file's hash stands behind it, and compute from all
                of the table; else from a thousand rows of it.
        """
        noted = self.config.tables.get(name)
        if noted is not None and (self._has_file_hashes(name) or not whole):
            return noted
        table = self[name]
        if whole or isinstance(table, Ragged) or len(table) <= SAMPLED_ROWS:
            return table_digest(table)
        return table_digest(table[np.linspace(0, len(table) - 1, SAMPLED_ROWS).astype(np.int64)])


def open_tables(
    folder: str | Path, form: Form | Literal["auto"] = "auto", *, verify: bool = True
) -> Tables:
    """Open a dataset. What is wrong with it, all of it, is one `DatasetError`.

    Args:
        folder: with config.json and the tables.
        form: which files to read, if there are several; `auto` takes what config.json says, or
            what is there.
        verify: compare every file with its hash, where config.json has one. Presence, shapes and
            types are looked at in any case.
    """
    folder = Path(folder)
    config = read_config(folder)
    tables = Tables(folder, config, READERS[_choose_form(folder, config, form)](folder))
    problems = _missing_files(tables)
    if not problems and verify:
        problems = _hash_problems(tables)
    if not problems:
        problems = _shape_problems(tables)
    if problems:
        raise DatasetError(
            f"the dataset in {folder} is not whole; restore it or build it again", problems
        )
    return tables


def _choose_form(folder: Path, config: DatasetConfig, form: str) -> Form:
    if form != "auto" and form not in FORMS:
        raise DatasetError(f"storage format {form!r} is unknown; use auto, {', '.join(FORMS)}")
    if form != "auto":
        return cast("Form", form)
    probe = stored_arrays(TABLES["pair_index"], config.counts)[0]
    likely = (config.storage_format, *FORMS)
    return next((form for form in likely if READERS[form](folder).has(probe)), likely[0])


def _missing_files(tables: Tables) -> list[str]:
    return [f"{name} is missing" for name, path in tables.files().items() if not path.is_file()]


def _hash_problems(tables: Tables) -> list[str]:
    problems = []
    for name, path in tables.files().items():
        wanted = tables.config.files.get(name)
        if wanted is None:
            continue
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        if digest != wanted:
            problems.append(
                f"{name} has changed since it was written: its SHA-256 is {digest[:16]}…, "
                f"config.json says {wanted[:16]}…"
            )
    return problems


def _shape_problems(tables: Tables) -> list[str]:
    problems = []
    for name in tables:
        try:
            tables[name]
        except DatasetError as error:
            problems.append(str(error))
    return problems


def _read_only(array: NDArray[Any]) -> NDArray[Any]:
    if array.flags.writeable:
        array.flags.writeable = False
    return array


def table_digest(table: Any) -> str:
    """SHA-256 of type, shape and values; the same for every form of a dataset.

    >>> table_digest(np.zeros(3, np.int64)) == table_digest(np.zeros((3, 1), np.int64))
    False
    """
    digest = hashlib.sha256()
    parts = [table.offsets, table.values] if isinstance(table, Ragged) else [table]
    for part in parts:
        digest.update(f"{part.dtype.str}{list(part.shape)}".encode())
        rows = max(1, DIGEST_BYTES // max(1, part.nbytes // max(1, len(part))))
        for start in range(0, len(part), rows):
            digest.update(np.ascontiguousarray(part[start : start + rows]).data)
    return digest.hexdigest()


DIGEST_CHARS = 8


def data_fingerprint(
    digests: Mapping[str, str], settings: Mapping[str, Any], *, whole: bool = True
) -> dict[str, str]:
    """Short strings: digests of the tables, in their order, and of the settings, by name.

    Args:
        digests: of every table.
        settings: on which batches depend.
        whole: whether the digests are of all rows, or of a sample of them.

    >>> data_fingerprint({"train_idx": "0123456789abcdef"}, {"n_neg": 4})["tables"]
    '01234567'
    """
    return {
        "of": "all rows" if whole else "some rows",
        "tables": "".join(digests[name][:DIGEST_CHARS] for name in TABLES if name in digests),
        "settings": " ".join(f"{name}={_short(value)}" for name, value in settings.items()),
    }


def check_fingerprint(saved: Mapping[str, str], now: Mapping[str, str]) -> None:
    """One `DatasetError` that says which tables and settings changed since `saved`."""
    if saved["of"] != now["of"]:
        raise DatasetError(
            f"the saved place knows the data by {saved['of']}, now {now['of']} were read; open it "
            "with the same 'verify', or convert it once, which notes digests in config.json"
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
            "the saved place belongs to other data; use the same, or begin anew",
            problems or ["the layout of the fingerprint differs"],
        )


def _short(value: Any) -> str:
    return hashlib.sha256(strict_json.dumps(value).encode()).hexdigest()[:DIGEST_CHARS]


def _split_digests(text: str) -> list[str]:
    return [text[at : at + DIGEST_CHARS] for at in range(0, len(text), DIGEST_CHARS)]


def _parse_settings(text: str) -> dict[str, str]:
    return dict(part.partition("=")[::2] for part in text.split())
