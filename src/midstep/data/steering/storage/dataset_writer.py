"""Writing a dataset: checked first, then all files at once, with the hash of each."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from midstep.core.errors import DatasetError
from midstep.core.files import storage
from midstep.core.files.atomic_folders import new_folder
from midstep.data.ragged import Ragged
from midstep.data.steering.storage.dataset_config import DatasetConfig
from midstep.data.steering.storage.hdf5_file import write_hdf5
from midstep.data.steering.storage.layout import (
    CONFIG_NAME,
    FORMS,
    TABLES,
    Form,
    StoredArray,
    canonical,
    stored_arrays,
)
from midstep.data.steering.storage.npy_files import write_memmap
from midstep.data.steering.storage.pt_files import write_pt
from midstep.data.steering.storage.table_checks import check_tables
from midstep.data.steering.storage.tables import Tables, open_tables, table_digest

if TYPE_CHECKING:
    from numpy.typing import NDArray


Writer = Callable[[Path, StoredArray, "NDArray[Any]"], Path]
_WRITERS: dict[Form, Writer] = {"memmap": write_memmap, "pt": write_pt, "hdf5": write_hdf5}
Precision = Literal["float32", "float16"]


def write_dataset(
    folder: str | Path,
    tables: Mapping[str, Any],
    config: DatasetConfig,
    form: Form = "memmap",
) -> Path:
    """Write a dataset into a new folder: there with all its files, or not at all.

    Args:
        folder: must not exist; its parent must.
        tables: every table of the layout; arrays, and `Ragged` (or a list of lists) where lengths
            differ. Whole numbers become int64; float16 stays, other floats become float32.
        config: counts, seed and schedule; form, hashes and digests are filled in.
        form: `memmap`, `pt` or `hdf5`.

    Raises:
        DatasetError: with everything that is wrong with the tables; nothing is written then.
    """
    if form not in FORMS:
        raise DatasetError(f"form {form!r} is unknown; use one of {', '.join(FORMS)}")
    ready = _canonical_tables(tables, config)
    check_tables(ready, config.counts)
    with new_folder(folder) as temporary:
        files = _write_tables(temporary, ready, config, _WRITERS[form])
        written = replace(
            config,
            storage_format=form,
            files={path.name: _sync_and_hash(path) for path in files},
            tables={name: table_digest(table) for name, table in ready.items()},
        )
        storage.replace_json(temporary / CONFIG_NAME, written.to_json())
    return Path(folder)


def convert(
    source: str | Path | Tables,
    folder: str | Path,
    form: Form = "memmap",
    *,
    precision: Precision | None = None,
) -> Path:
    """Write a dataset anew in another form; its batches stay the same to the byte.

    Args:
        source: the dataset as it is.
        folder: the new one; must not exist.
        form: of the new one.
        precision: `float16` halves the tables of embeddings and steering, and rounds them;
            `float32` widens them again. As they are when left out.
    """
    tables = source if isinstance(source, Tables) else open_tables(source)
    if precision is None:
        return write_dataset(folder, tables, tables.config, form)
    if precision not in ("float32", "float16"):
        raise DatasetError(f"precision {precision!r} is unknown; use float32 or float16")
    return write_dataset(folder, _as_precision(tables, precision), tables.config, form)


def _as_precision(tables: Tables, precision: Precision) -> dict[str, Any]:
    """The wide float tables in another precision; one number a pair is not worth rounding."""
    wide = {name for name, spec in TABLES.items() if spec.kind == "float" and len(spec.shape) == 2}
    return {
        name: table.astype(precision) if name in wide else table for name, table in tables.items()
    }


def _canonical_tables(tables: Mapping[str, Any], config: DatasetConfig) -> dict[str, Any]:
    unknown = [f"{name} is no table of a dataset" for name in tables if name not in TABLES]
    problems = [f"{name} is missing" for name in TABLES if name not in tables] + unknown
    parts: dict[str, Any] = {}
    for name in TABLES.keys() & tables.keys():
        arrays = stored_arrays(TABLES[name], config.counts)
        given = _parts(tables[name])
        if len(given) != len(arrays):
            problems.append(f"{name} must be {'Ragged' if len(arrays) > 1 else 'one array'}")
            continue
        problems += filter(None, map(_problem, arrays, given))
        parts[name] = given
    if problems:
        raise DatasetError("the tables cannot be written", problems)
    return {name: _assemble(parts[name], config, name) for name in TABLES}


def _parts(table: Any) -> list[NDArray[Any]]:
    if isinstance(table, list) and all(isinstance(each, list | tuple) for each in table):
        table = Ragged.of(table)
    return list(table.parts().values()) if isinstance(table, Ragged) else [np.asarray(table)]


def _problem(array: StoredArray, given: NDArray[Any]) -> str | None:
    return array.problem(array.name, given.shape, given.dtype.name)


def _assemble(parts: list[NDArray[Any]], config: DatasetConfig, name: str) -> Any:
    kinds = [each.kind for each in stored_arrays(TABLES[name], config.counts)]
    ready = [canonical(part, kind) for part, kind in zip(parts, kinds, strict=True)]
    return ready[0] if len(ready) == 1 else Ragged(*ready)


def _write_tables(
    folder: Path, tables: Mapping[str, Any], config: DatasetConfig, write: Writer
) -> list[Path]:
    files: dict[Path, None] = {}
    for name, table in tables.items():
        arrays = stored_arrays(TABLES[name], config.counts)
        for array, data in zip(arrays, _parts(table), strict=True):
            files[write(folder, array, data)] = None
    return list(files)


def _sync_and_hash(path: Path) -> str:
    with path.open("rb") as file:
        os.fsync(file.fileno())
        return hashlib.file_digest(file, "sha256").hexdigest()
