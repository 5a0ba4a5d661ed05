"""Embedding datasets in the folders of `--data`, found by listing.

The id of a request is compared with the listing and never joined to a path. A dataset with a link,
a pipe or another irregular file in it is not opened.
"""

from __future__ import annotations

import os
import re
import stat
import threading
from collections.abc import Iterable
from dataclasses import dataclass, replace
from hashlib import blake2b
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from midstep.core.errors import DatasetError, MissingExtraError
from midstep.server.problems import Refusal, not_found

if TYPE_CHECKING:
    from midstep.data.steering.storage.tables import Tables

MOST_DATASETS = 500
"""Datasets that are listed."""
MOST_CONFIG_BYTES = 4 << 20
"""Largest config.json that is read."""
MOST_LOADED_BYTES = 2 << 30
"""Largest dataset that is read into memory; a memmap dataset may be larger."""
_CONFIG = "config.json"
_NOT_PLAIN = re.compile(r"[^A-Za-z0-9._-]")
_ID_LENGTH = 100


@dataclass(frozen=True, kw_only=True)
class StoredFolder:
    """A folder that a request names by an id of the listing."""

    id: str
    """Made from the name of the folder, with a number if two have the same name."""
    folder: Path
    made_at: float
    """When its main file was written; seconds since 1970."""


Stored = TypeVar("Stored", bound=StoredFolder)


def list_newest(folders: Iterable[Stored]) -> list[Stored]:
    """The folders sorted by time, newest first; a repeated id gets a number."""
    by_id: dict[str, Stored] = {}
    for each in folders:
        name, number = each.id, 1
        while name in by_id:
            number += 1
            name = f"{each.id}~{number}"
        by_id[name] = replace(each, id=name)
    return sorted(by_id.values(), key=lambda each: (-each.made_at, each.id))


def folder_names(root: Path) -> list[str]:
    """Sorted names of the folders in `root`; links are not followed."""
    try:
        with os.scandir(root) as entries:
            return sorted(entry.name for entry in entries if entry.is_dir(follow_symlinks=False))
    except OSError:  # it does not exist or may not be read: it has no folders
        return []


@dataclass(frozen=True, kw_only=True)
class StoredDataset(StoredFolder):
    """One folder with a config.json. Its id has plain characters only."""

    name: str
    """Name of the folder."""
    size_bytes: int
    """Size of all its files."""
    stamp: str
    """Hash of names, sizes and times of its files; it changes with the content."""
    irregular: str | None
    """Name of an irregular file in it; then no file of it is opened."""


class DataRoots:
    """The folders that are searched for datasets; each may itself be a dataset.

    Args:
        *folders: the folders that the user gave.

    >>> DataRoots().listing()
    []
    """

    def __init__(self, *folders: str | Path) -> None:
        self.folders = tuple(dict.fromkeys(Path(each).resolve() for each in folders))
        self._loaded: tuple[str, Tables] | None = None
        self._load_lock = threading.Lock()

    def listing(self) -> list[StoredDataset]:
        """All datasets, newest first; the same name in a second folder gets a number."""
        folders = (
            root / name
            for root in self.folders
            for name in ("", *folder_names(root))
            if not name.startswith(".")  # a dataset that is being written
        )
        stored = (each for each in map(_stored, folders) if each is not None)
        return list_newest(islice(stored, MOST_DATASETS))

    def get(self, dataset_id: str) -> StoredDataset:
        """The dataset of this id; every other id gets the same 404."""
        for each in self.listing():
            if each.id == dataset_id:
                return each
        raise not_found()

    def tables(self, stored: StoredDataset) -> Tables:
        """Its tables with checked shapes, but unchecked values; a 409 if it is damaged."""
        if stored.irregular is not None:
            raise damaged(stored, irregular_problem(stored))
        with self._load_lock:
            if self._loaded is not None and self._loaded[0] == stored.stamp:
                return self._loaded[1]
            tables = _open(stored)
            # Mapped tables are not kept: reading a mapped file that was truncated meanwhile kills
            # the server with SIGBUS, and mapping again is cheap.
            if not _is_mapped(tables):
                self._loaded = (stored.stamp, tables)
            return tables


def damaged(stored: StoredDataset, why: str) -> Refusal:
    """A 409 for a dataset that cannot be shown."""
    return Refusal(409, "damaged", f"{stored.name} cannot be read: {why}")


def irregular_problem(stored: StoredDataset) -> str:
    """Why a dataset with an irregular file is not opened."""
    return f"{stored.irregular} is not a regular file; links are not followed"


def message_without_paths(stored: StoredDataset, error: Exception) -> str:
    """The message of an error without the path of the dataset on this machine."""
    text = "; ".join(getattr(error, "problems", ())) or str(error)
    return text.replace(f"{stored.folder}{os.sep}", "").replace(str(stored.folder), "")


def _open(stored: StoredDataset) -> Tables:
    from midstep.data.steering.storage.dataset_config import read_config
    from midstep.data.steering.storage.tables import open_tables

    try:
        form = read_config(stored.folder).storage_format
        mapped = form == "memmap" and (stored.folder / "pair_index.npy").is_file()
        if mapped or stored.size_bytes <= MOST_LOADED_BYTES:
            return open_tables(stored.folder, verify=False)
    except (DatasetError, MissingExtraError) as error:
        raise damaged(stored, message_without_paths(stored, error)) from None
    raise damaged(
        stored,
        f"{stored.size_bytes >> 20:,} MiB in the form {form} are too much to load into memory; "
        "convert it first: midstep data convert OLD NEW --form memmap",
    )


def _is_mapped(tables: Tables) -> bool:
    """Whether all tables are mapped. Some are read into memory to convert their number type."""
    import numpy as np

    return all(isinstance(table, np.memmap) for table in tables.values() if hasattr(table, "dtype"))


def _stored(folder: Path) -> StoredDataset | None:
    """The dataset in a folder; None if it has no config.json."""
    try:
        folder.name.encode("utf-8")
        files = _files_in(folder)
    except (OSError, UnicodeEncodeError):  # removed meanwhile, or a name that JSON cannot hold
        return None
    config = files.get(_CONFIG)
    if config is None or not stat.S_ISREG(config.st_mode) or config.st_size > MOST_CONFIG_BYTES:
        return None
    digest = blake2b(str(folder).encode(), digest_size=16)
    for name, status in sorted(files.items()):
        digest.update(f"{name}\0{status.st_ino} {status.st_mtime_ns} {status.st_size}\0".encode())
    return StoredDataset(
        id=_NOT_PLAIN.sub("_", folder.name)[:_ID_LENGTH] or "dataset",
        name=folder.name,
        folder=folder,
        made_at=config.st_mtime,
        size_bytes=sum(status.st_size for status in files.values()),
        stamp=digest.hexdigest(),
        irregular=next(
            (name for name, status in files.items() if not stat.S_ISREG(status.st_mode)), None
        ),
    )


def _files_in(folder: Path, subfolder: str = "texts") -> dict[str, os.stat_result]:
    """The files of a folder and of its `subfolder`, without following links."""
    files = {}
    with os.scandir(folder) as entries:
        for entry in entries:
            status = entry.stat(follow_symlinks=False)
            if not stat.S_ISDIR(status.st_mode):
                files[entry.name.encode("utf-8", "replace").decode()] = status
            elif entry.name == subfolder:
                inner = _files_in(folder / subfolder, subfolder="")
                files |= {f"{subfolder}/{name}": each for name, each in inner.items()}
    return files
