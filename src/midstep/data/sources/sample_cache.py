"""Keeps the samples of slow sources in memory, or on disk in the user's cache folder.

A file on disk is named by the fingerprint of the data, so it never gets stale. It holds tensors in
safetensors, so opening one runs no code.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from midstep.core.files.storage import (
    make_folder,
    storage_errors,
    sync_file,
    sync_folder,
    temporary_name,
)
from midstep.core.files.user_state import user_folder
from midstep.data.sources.source_data import (
    SPLITS,
    Batch,
    ColumnsDataset,
    SampleDataset,
    SourceData,
    Split,
    hash_parts,
)

if TYPE_CHECKING:
    from midstep.data.sources.data_config import Cache

ROWS_AT_ONCE = 4_096
FOLDER = "samples"


def cache_samples(data: SourceData, where: Cache, *, folder: Path | None = None) -> SourceData:
    """The same data, read once and then from memory or disk.

    Data that is in memory already is returned as it is.

    Args:
        data: any source.
        where: none, memory or disk.
        folder: of the files on disk; by default in the user's cache folder.
    """
    if where == "none" or all(isinstance(each, ColumnsDataset) for each in data.splits.values()):
        return data
    if where == "memory":
        columns = {name: _read_all(data.splits[name]) for name in SPLITS}
    else:
        columns = _through_disk(data, folder or user_folder("cache") / FOLDER)
    return replace(
        data,
        splits={
            name: ColumnsDataset(columns[name], data.splits[name].fingerprint()) for name in SPLITS
        },
    )


def _read_all(dataset: SampleDataset) -> Batch:
    """All samples of a split as one batch."""
    pieces = list(_pieces(dataset))
    return {name: torch.cat([piece[name] for piece in pieces]) for name in pieces[0]}


def _pieces(dataset: SampleDataset) -> Iterator[Batch]:
    for start in range(0, len(dataset), ROWS_AT_ONCE):
        yield dataset.__getitems__(range(start, min(start + ROWS_AT_ONCE, len(dataset))))


def _through_disk(data: SourceData, folder: Path) -> dict[Split, Batch]:
    """The columns in the file of this data, which is written if it is missing or damaged."""
    # Hashed once more: a source of another package may use any text as its fingerprint.
    path = folder / f"{hash_parts(data.fingerprint)}.safetensors"
    lengths: dict[Split, int] = {name: len(data.splits[name]) for name in SPLITS}
    columns = _load(path, lengths)
    if columns is None:
        _save(path, {name: _read_all(data.splits[name]) for name in SPLITS})
        columns = _load(path, lengths)
    if columns is None:  # another process replaced it with something else: train without it
        return {name: _read_all(data.splits[name]) for name in SPLITS}
    return columns


def _load(path: Path, lengths: dict[Split, int]) -> dict[Split, Batch] | None:
    """The columns of each split, mapped from the file; None if it is missing or damaged."""
    from safetensors import SafetensorError, safe_open

    columns: dict[Split, dict[str, torch.Tensor]] = {name: {} for name in SPLITS}
    try:
        with safe_open(path, framework="pt") as file:
            for name in SPLITS:
                for key in file.keys():  # noqa: SIM118 - no mapping, it has no iterator
                    split, _, column = key.partition("/")
                    if split == name:
                        columns[name][column] = file.get_tensor(key)
    except (OSError, SafetensorError):
        return None
    for name, length in lengths.items():
        if not columns[name] or any(len(each) != length for each in columns[name].values()):
            return None
    return dict(columns)


def _save(path: Path, columns: dict[Split, Batch]) -> None:
    from safetensors.torch import save_file

    tensors: dict[str, Any] = {
        f"{name}/{key}": tensor.contiguous()
        for name, batch in columns.items()
        for key, tensor in batch.items()
    }
    make_folder(path.parent, mode=0o700)
    with storage_errors(path, "write"), temporary_name(path) as temporary:
        save_file(tensors, temporary)
        sync_file(temporary)  # before the rename: a name must not lead to an empty file
        temporary.replace(path)
    sync_folder(path.parent)
