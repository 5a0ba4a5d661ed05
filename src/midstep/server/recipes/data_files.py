"""Files of the server's data folders that a recipe can train on, by id.

The id of a request is compared with the listing and never joined to a path.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path

from midstep.server.datasets.data_roots import folder_names

SUFFIXES = (".h5", ".hdf5", ".npz")
MOST_FILES = 500
"""Files that are listed."""


def list_data_files(roots: Iterable[Path]) -> dict[str, Path]:
    """Regular files with a known suffix in the folders and in theirs, sorted by id.

    The id is the path below its folder; the same one in a second folder gets a number.
    """
    by_id: dict[str, Path] = {}
    for name, path in islice(_files(roots), MOST_FILES):
        file_id, number = name, 1
        while file_id in by_id:
            number += 1
            file_id = f"{name}~{number}"
        by_id[file_id] = path
    return dict(sorted(by_id.items()))


def _files(roots: Iterable[Path]) -> Iterator[tuple[str, Path]]:
    for root in roots:
        for folder in ("", *folder_names(root)):
            for name in _data_names(root / folder):
                yield f"{folder}/{name}".lstrip("/"), root / folder / name


def _data_names(folder: Path) -> list[str]:
    """Names of data files in a folder; links and irregular files are left out."""
    try:
        with os.scandir(folder) as entries:
            return sorted(
                entry.name
                for entry in entries
                if entry.name.endswith(SUFFIXES)
                and entry.name.isprintable()
                and entry.is_file(follow_symlinks=False)
            )
    except OSError:  # it does not exist or may not be read: it has no files
        return []
