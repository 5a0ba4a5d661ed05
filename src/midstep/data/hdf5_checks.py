"""Checks of HDF5 files from elsewhere, made before a value is read.

Such a file may refer to other files or ask for a filter plug-in, which is code. Links, external
storage, virtual datasets and plug-in filters are refused, and shapes that only take memory too.
"""

from __future__ import annotations

from typing import Any

from midstep.core.errors import FormatError, MissingExtraError

BUILT_IN_FILTERS = (1, 2, 3, 32000)
"""Deflate, shuffle, Fletcher-32, LZF: the filters that need no plug-in."""
MOST_EXPANSION = 1100
"""Largest accepted ratio of decompressed to stored bytes. Deflate reaches 1,032 at most."""
MOST_CHUNK_BYTES = 256 << 20
"""HDF5 takes memory for a whole chunk when one of its values is read."""


def import_h5py() -> Any:
    """The library h5py, or an error that names the extra."""
    try:
        import h5py
    except ImportError:
        raise MissingExtraError.for_library("h5py", "data") from None
    return h5py


def find_table(file: Any, path: str, label: str) -> Any:
    """The HDF5 dataset at `path`, if all of it lies in this file.

    Args:
        file: the open file or a group.
        path: names of groups and of the dataset, with slashes.
        label: names the dataset in an error.

    Raises:
        FormatError: it is missing, no table, a link, virtual, or stored in another file.
    """
    h5py = import_h5py()
    stored = file
    for name in path.split("/"):
        stored = find_member(stored, name, label)
    if not isinstance(stored, h5py.Dataset):
        raise FormatError(f"{label} is not a table")
    if stored.is_virtual or stored.external:
        kind = "a virtual dataset" if stored.is_virtual else "stored in another file"
        raise FormatError(f"{label} is {kind}; copy its values into the file itself")
    return stored


def has_member(group: Any, name: str) -> bool:
    """Whether a group has a link of that name. `name in group` would follow it to its target."""
    return isinstance(group, import_h5py().Group) and bool(group.id.links.exists(name.encode()))


def find_member(group: Any, name: str, label: str) -> Any:
    """A member of a group. Soft and external links are refused: they may lead to other files.

    Raises:
        FormatError: it is missing, or such a link.
    """
    h5py = import_h5py()
    if not isinstance(group, h5py.Group):
        raise FormatError(f"{label} is missing: {group.name} is not a group")
    if not has_member(group, name):
        raise FormatError(f"{label} is missing")
    kind = group.id.links.get_info(name.encode()).type
    if kind != h5py.h5l.TYPE_HARD:
        names = {h5py.h5l.TYPE_SOFT: "SoftLink", h5py.h5l.TYPE_EXTERNAL: "ExternalLink"}
        raise FormatError(
            f"{label} is a {names.get(kind, 'link of another kind')}, which is not followed; copy "
            "the table into the file itself"
        )
    return group[name]


def check_storage(stored: Any, label: str) -> None:
    """Refuse filters that are plug-ins, and a shape that the stored bytes cannot fill.

    Raises:
        FormatError: one of these.
    """
    properties = stored.id.get_create_plist()
    filters = properties.get_nfilters()
    for index in range(filters):
        number = properties.get_filter(index)[0]
        if number not in BUILT_IN_FILTERS:
            raise FormatError(
                f"{label} needs the filter {number}, which is not built in; store it without"
            )
    # A larger shape would only allocate memory.
    held, wanted = stored.id.get_storage_size(), stored.nbytes
    if wanted > (held * MOST_EXPANSION if filters else held):
        raise FormatError(
            f"{label} has the shape {list(stored.shape)}, {wanted} bytes; the file holds {held}"
        )
    chunk_bytes = stored.dtype.itemsize
    for length in stored.chunks or ():
        chunk_bytes *= length
    if stored.chunks and chunk_bytes > MOST_CHUNK_BYTES:
        raise FormatError(
            f"{label} has chunks of {chunk_bytes:,} bytes, at most {MOST_CHUNK_BYTES:,} are read; "
            "store it in smaller chunks"
        )
