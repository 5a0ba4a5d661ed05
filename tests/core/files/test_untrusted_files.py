"""Files of strangers: regular ones are read, nothing else is opened, and nothing is leaked."""

from __future__ import annotations

import os
from pathlib import Path

import psutil
import pytest

from midstep.core.files.untrusted_files import (
    LARGEST_BYTES,
    open_folder,
    open_plain,
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


def test_no_more_than_a_mebibyte_is_read(folder: Path) -> None:
    (folder / "large").write_bytes(bytes(LARGEST_BYTES + 1))
    assert len(read_plain(folder / "large")) == LARGEST_BYTES


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
