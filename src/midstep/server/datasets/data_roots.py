"""Embedding datasets under the folders that were named, found by listing.

An id from outside is only ever compared with what was listed, never joined to a path. A dataset
that holds a link, a pipe or anything else that is no plain file is not opened.
"""

from __future__ import annotations

import os
import re
import stat
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

from midstep.core.errors import DatasetError, MissingExtraError
from midstep.server.problems import Refusal, not_found

if TYPE_CHECKING:
    from midstep.data.steering.storage.tables import Tables

T = TypeVar("T")

MOST_DATASETS = 500
MOST_CONFIG_BYTES = 4 << 20
MOST_LOADED_BYTES = 2 << 30
"""Of a dataset whose form is read whole, not mapped."""
MOST_KEPT = 1024
"""Answers that took a pass over a table, kept for as long as the files stay as they are."""
_CONFIG = "config.json"
_ODD = re.compile(r"[^A-Za-z0-9._-]")
_ID_LENGTH = 100


@dataclass(frozen=True, kw_only=True)
class StoredDataset:
    """One folder with a config.json."""

    id: str
    """What the page calls it: the folder's name, plain characters only."""
    name: str
    """The folder's name as it is."""
    folder: Path
    made_at: float
    """When config.json was written; seconds since 1970."""
    size_bytes: int
    """Of all its files."""
    stamp: str
    """Of all its files; another stamp is another content."""
    odd: str | None
    """A name in it that is no plain file; then nothing in it is opened."""


class DataRoots:
    """The folders in which datasets are looked for; each may itself be a dataset.

    Args:
        *folders: as the user named them.

    >>> DataRoots().listing()
    []
    """

    def __init__(self, *folders: str | Path) -> None:
        self.folders = tuple(dict.fromkeys(Path(each).resolve() for each in folders))
        self._kept: OrderedDict[tuple[str, ...], Any] = OrderedDict()
        self._loaded: tuple[str, Tables] | None = None
        self._lock = threading.Lock()
        self._load_lock = threading.Lock()

    def listing(self) -> list[StoredDataset]:
        """All datasets, newest first; the same name in a second folder gets a number."""
        found: dict[str, StoredDataset] = {}
        for each in self._all():
            name, number = each.id, 1
            while name in found:
                number += 1
                name = f"{each.id}~{number}"
            found[name] = replace(each, id=name)
            if len(found) >= MOST_DATASETS:
                break
        return sorted(found.values(), key=lambda each: (-each.made_at, each.id))

    def _all(self) -> Iterator[StoredDataset]:
        for root in self.folders:
            for name in ("", *_folders_in(root)):
                made = _stored(root / name if name else root)
                if made is not None:
                    yield made

    def get(self, dataset_id: str) -> StoredDataset:
        """The dataset of this id; every other id gets the one 404."""
        for each in self.listing():
            if each.id == dataset_id:
                return each
        raise not_found()

    def tables(self, stored: StoredDataset) -> Tables:
        """Its tables, their shapes checked, their values not; 409 where it is damaged."""
        if stored.odd is not None:
            raise damaged(stored, f"{stored.odd} is no plain file; links are not followed")
        with self._load_lock:
            if self._loaded is not None and self._loaded[0] == stored.stamp:
                return self._loaded[1]
            tables = _open(stored)
            # A mapped dataset is mapped anew each time: a file that is cut while it is mapped
            # would take the server with it, and mapping is cheap.
            if not _is_mapped(tables):
                self._loaded = (stored.stamp, tables)
            return tables

    def keep(self, stored: StoredDataset, what: str, make: Callable[[], T]) -> T:
        """`make()`, or what it gave before while the files were the same."""
        key = (stored.stamp, stored.id, what)
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
                return cast("T", self._kept[key])
        made = make()
        with self._lock:
            self._kept[key] = made
            while len(self._kept) > MOST_KEPT:
                self._kept.popitem(last=False)
        return made


def damaged(stored: StoredDataset, why: str) -> Refusal:
    """409 for a dataset that cannot be shown."""
    return Refusal(409, "damaged", f"{stored.name} cannot be read: {why}")


def told_without_paths(stored: StoredDataset, error: Exception) -> str:
    """What an error says, without where things lie on this machine."""
    text = "; ".join(getattr(error, "problems", ())) or str(error)
    for place in (f"{stored.folder}{os.sep}", str(stored.folder)):
        text = text.replace(place, "")
    return text


def _open(stored: StoredDataset) -> Tables:
    from midstep.data.steering.storage.dataset_config import read_config
    from midstep.data.steering.storage.tables import open_tables

    try:
        form = read_config(stored.folder).storage_format
        mapped = form == "memmap" and (stored.folder / "pair_index.npy").is_file()
        if mapped or stored.size_bytes <= MOST_LOADED_BYTES:
            return open_tables(stored.folder, verify=False)
    except (DatasetError, MissingExtraError) as error:
        raise damaged(stored, told_without_paths(stored, error)) from None
    raise damaged(
        stored,
        f"{stored.size_bytes >> 20:,} MiB in the form {form} would be read whole; "
        "convert it first: midstep data convert OLD NEW --form memmap",
    )


def _is_mapped(tables: Tables) -> bool:
    """Whether nothing of it lies in memory; tables of other number types are read whole."""
    import numpy as np

    return all(isinstance(table, np.memmap) for table in tables.values() if hasattr(table, "dtype"))


def _folders_in(root: Path) -> list[str]:
    """Names of the folders in a root; what begins with a dot is being written."""
    try:
        with os.scandir(root) as entries:
            names = [
                one.name
                for one in entries
                if one.is_dir(follow_symlinks=False) and not one.name.startswith(".")
            ]
    except OSError:  # not there, or not ours to read: there are no datasets
        return []
    return sorted(names)


def _stored(folder: Path) -> StoredDataset | None:
    """The dataset in a folder; None where there is no config.json."""
    try:
        folder.name.encode("utf-8")
        files = _files_in(folder)
    except (OSError, UnicodeEncodeError):  # gone meanwhile, or a name nobody could be told
        return None
    config = files.get(_CONFIG)
    if config is None or not stat.S_ISREG(config.st_mode) or config.st_size > MOST_CONFIG_BYTES:
        return None
    digest = blake2b(str(folder).encode(), digest_size=16)
    for name, seen in sorted(files.items()):
        digest.update(f"{name}\0{seen.st_ino} {seen.st_mtime_ns} {seen.st_size}\0".encode())
    return StoredDataset(
        id=_ODD.sub("_", folder.name)[:_ID_LENGTH] or "dataset",
        name=folder.name,
        folder=folder,
        made_at=config.st_mtime,
        size_bytes=sum(seen.st_size for seen in files.values()),
        stamp=digest.hexdigest(),
        odd=next((name for name, seen in files.items() if not stat.S_ISREG(seen.st_mode)), None),
    )


def _files_in(folder: Path, below: str = "texts") -> dict[str, os.stat_result]:
    """What lies in a folder and in its folder `below`, but for other folders; links as links."""
    found = {}
    with os.scandir(folder) as entries:
        for entry in entries:
            seen = entry.stat(follow_symlinks=False)
            if not stat.S_ISDIR(seen.st_mode):
                found[entry.name.encode("utf-8", "replace").decode()] = seen
            elif entry.name == below:
                inner = _files_in(folder / below, below="")
                found |= {f"{below}/{name}": each for name, each in inner.items()}
    return found
