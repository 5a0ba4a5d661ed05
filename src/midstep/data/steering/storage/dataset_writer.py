"""Write a steering dataset: check the tables, then write all files and their hashes at once."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from midstep.core.errors import DatasetError
from midstep.core.files import storage
from midstep.core.files.atomic_folders import new_folder
from midstep.data.ragged import Ragged
from midstep.data.steering.storage.dataset_config import DatasetConfig
from midstep.data.steering.storage.file_hashes import hash_file
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

Writer = Callable[[Path, StoredArray, "NDArray[Any]"], Path]
_WRITERS: dict[Form, Writer] = {"memmap": write_memmap, "pt": write_pt, "hdf5": write_hdf5}
Precision = Literal["float32", "float16"]


def write_dataset(
    folder: str | Path,
    tables: Mapping[str, Any],
    config: DatasetConfig,
    form: Form = "memmap",
) -> Path:
    """Write a dataset into a new folder, which appears complete or not at all.

    Args:
        folder: must not exist; its parent must.
        tables: every table of the layout: arrays, and `Ragged` or a list of lists for the keyword
            ids. Whole numbers become int64; float16 stays, other floats become float32.
        config: counts, seed and schedule. The writer fills in form, hashes and digests.
        form: `memmap`, `pt` or `hdf5`.

    Raises:
        DatasetError: if a table is wrong, with all problems; nothing is written then.
    """
    if form not in FORMS:
        raise DatasetError(f"form {form!r} is unknown; use one of {', '.join(FORMS)}")
    arrays = _canonical_arrays(tables, config)
    ready = {name: _join_parts(list(parts.values())) for name, parts in arrays.items()}
    check_tables(ready, config.counts)
    Path(folder).parent.mkdir(parents=True, exist_ok=True)
    with new_folder(folder) as temporary:
        # A dict and not a set keeps the order of the files; HDF5 gives one file for all arrays.
        files = dict.fromkeys(
            _WRITERS[form](temporary, array, data)
            for parts in arrays.values()
            for array, data in parts.items()
        )
        written = replace(
            config,
            storage_format=form,
            files={path.name: sync_and_hash(path) for path in files},
            tables={name: table_digest(table) for name, table in ready.items()},
        )
        # Last, because it holds the hashes of the other files.
        storage.replace_json(temporary / CONFIG_NAME, written.to_json())
    return Path(folder)


def convert(
    source: str | Path | Tables,
    folder: str | Path,
    form: Form = "memmap",
    *,
    precision: Precision | None = None,
) -> Path:
    """Write a dataset again in another form. Its batches stay the same to the bit.

    Args:
        source: the existing dataset.
        folder: the new dataset; must not exist.
        form: the form of the new dataset.
        precision: `float16` halves the tables of embeddings and steering vectors, and rounds them;
            `float32` widens them again. By default the precision stays as it is.
    """
    tables = source if isinstance(source, Tables) else open_tables(source)
    if precision is None:
        return write_dataset(folder, tables, tables.config, form)
    if precision not in ("float32", "float16"):
        raise DatasetError(f"precision {precision!r} is unknown; use float32 or float16")
    return write_dataset(folder, _as_precision(tables, precision), tables.config, form)


def _as_precision(tables: Tables, precision: Precision) -> dict[str, Any]:
    """The wide float tables in another precision; columns with one number a pair stay as is."""
    wide = {name for name, spec in TABLES.items() if spec.kind == "float" and len(spec.shape) == 2}
    return {
        name: table.astype(precision) if name in wide else table for name, table in tables.items()
    }


def _canonical_arrays(
    tables: Mapping[str, Any], config: DatasetConfig
) -> dict[str, dict[StoredArray, NDArray[Any]]]:
    """The arrays of every table as they are stored, or one `DatasetError` with all problems."""
    problems = [f"{name} is missing" for name in TABLES if name not in tables]
    problems += [f"{name} is not a table of a dataset" for name in tables if name not in TABLES]
    ready: dict[str, dict[StoredArray, NDArray[Any]]] = {}
    for name in [each for each in TABLES if each in tables]:
        arrays, parts = stored_arrays(TABLES[name], config.counts), _split_parts(tables[name])
        if len(parts) != len(arrays):
            problems.append(f"{name} must be {'Ragged' if len(arrays) > 1 else 'one array'}")
            continue
        pairs = list(zip(arrays, parts, strict=True))
        wrong = (array.problem(array.name, data.shape, data.dtype.name) for array, data in pairs)
        new_problems = [problem for problem in wrong if problem is not None]
        problems += new_problems
        if not new_problems:
            ready[name] = {array: canonical(data, array.kind) for array, data in pairs}
    DatasetError.raise_if("the tables cannot be written", problems)
    return ready


def _split_parts(table: Any) -> list[NDArray[Any]]:
    if isinstance(table, list) and all(isinstance(each, list | tuple) for each in table):
        table = Ragged.from_lists(table)
    return list(table.parts().values()) if isinstance(table, Ragged) else [np.asarray(table)]


def _join_parts(parts: list[NDArray[Any]]) -> Any:
    return parts[0] if len(parts) == 1 else Ragged(*parts)


def sync_and_hash(path: Path) -> str:
    """Write a file through to the disk, and give its SHA-256."""
    with path.open("rb") as file:
        os.fsync(file.fileno())
    return hash_file(path)
