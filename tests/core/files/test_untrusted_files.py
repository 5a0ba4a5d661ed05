"""Files of strangers: regular ones are read, nothing else is opened, and nothing is leaked."""

from __future__ import annotations

import os
from pathlib import Path

import psutil
import pytest

from midstep.core.files.untrusted_files import (
    LARGEST_BYTES,
    data_pieces,
    is_plain,
    open_folder,
    open_in_folder,
    open_plain,
    open_regular,
    open_subfolder,
    read_plain,
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A file and a folder, a link to each, and a pipe."""
    folder = tmp_path / "folder"
    (folder / "inner").mkdir(parents=True)
    (folder / "inner" / "file").write_bytes(b"deep")
    (folder / "file").write_bytes(b"flat")
    (folder / "link").symlink_to(folder / "file")
    (folder / "linked").symlink_to(folder / "inner")
    os.mkfifo(folder / "pipe")
    return folder


def test_regular_files_are_opened(folder: Path) -> None:
    with open_plain(folder, "file") as file:
        assert file.read() == b"flat"
    with open_plain(folder, "inner", "file") as file:
        assert file.read() == b"deep"
    assert read_plain(folder / "file") == b"flat"


def test_a_small_file_that_is_large_is_refused(folder: Path) -> None:
    (folder / "large").write_bytes(bytes(LARGEST_BYTES))
    assert len(read_plain(folder / "large")) == LARGEST_BYTES
    (folder / "large").write_bytes(bytes(LARGEST_BYTES + 1))
    with pytest.raises(OSError, match="more than"):
        read_plain(folder / "large")
    assert len(read_plain(folder / "large", 2 * LARGEST_BYTES)) == LARGEST_BYTES + 1
    with pytest.raises(OSError, match="more than"):
        read_plain(folder / "file", 3)


def test_a_descriptor_is_opened_only_in_a_folder_that_is_none_of_a_link(folder: Path) -> None:
    os.close(open_in_folder(folder / "inner" / "file"))
    for path in (folder / "linked" / "file", folder / "link", folder / "pipe", folder / "inner"):
        with pytest.raises(OSError):  # noqa: PT011 - by kind of file
            open_in_folder(path)
    with pytest.raises(OSError):  # noqa: PT011 - ELOOP
        open_regular(folder / "link", os.O_RDWR | os.O_CREAT)
    assert (folder / "file").read_bytes() == b"flat"


def test_a_file_with_a_second_name_is_not_plain(folder: Path) -> None:
    assert is_plain(folder / "file")
    os.link(folder / "file", folder / "second")
    names = ("file", "second", "link", "pipe", "inner", "missing")
    assert not any(is_plain(folder / name) for name in names)


def test_holes_of_a_sparse_file_are_not_read(folder: Path) -> None:
    with (folder / "sparse").open("wb") as file:
        file.write(b"first")
        file.seek(1 << 40)
        file.write(b"last")
    with (folder / "sparse").open("rb") as file:
        pieces = list(data_pieces(file.fileno(), 2, (1 << 40) + 4))
    joined = b"".join(data for _, data in pieces)
    assert joined.startswith(b"rst")
    assert joined.endswith(b"last")
    assert len(joined) < 1 << 20


@pytest.mark.parametrize(
    "parts",
    [("link",), ("linked", "file"), ("pipe",), ("inner",), ("missing",), ("file", "file")],
)
def test_anything_else_is_an_error_and_leaks_no_descriptor(
    folder: Path, parts: tuple[str, ...]
) -> None:
    before = psutil.Process().num_fds()
    with pytest.raises(OSError), open_plain(folder, *parts):  # noqa: PT011 - by kind of file
        pass
    if parts != ("linked", "file"):  # the path to the file is the caller's own
        with pytest.raises(OSError):  # noqa: PT011 - as above
            read_plain(folder.joinpath(*parts))
    assert psutil.Process().num_fds() == before


def test_a_folder_that_is_a_link_is_not_opened(folder: Path) -> None:
    with pytest.raises(OSError), open_folder(folder / "linked"):  # noqa: PT011 - ELOOP, ENOTDIR
        pass
    with (
        open_folder(folder) as root,
        pytest.raises(OSError),  # noqa: PT011 - as above
        open_subfolder(root, ["linked"]),
    ):
        pass
