"""Replace is old or new, never a mix; append is a whole record or none."""

from __future__ import annotations

import errno
import os
import resource
from pathlib import Path

import pytest

from midstep.core.errors import StorageError
from midstep.core.files import storage
from midstep.core.files.storage import AppendFile, remove_temporaries, replace_bytes, replace_json
from tests.checkers.kill import run_forked


def test_replace_creates_and_replaces(tmp_path: Path) -> None:
    path = tmp_path / "a.bin"
    replace_bytes(path, b"one")
    replace_bytes(path, b"two", durable=False)
    assert path.read_bytes() == b"two"
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.bin"]


def test_replace_json_is_strict_and_ends_in_a_newline(tmp_path: Path) -> None:
    replace_json(tmp_path / "a.json", {"loss": float("nan")})
    assert (tmp_path / "a.json").read_text() == '{"loss":"NaN"}\n'


def test_replace_honours_the_mode(tmp_path: Path) -> None:
    replace_bytes(tmp_path / "secret", b"x", mode=0o600)
    assert (tmp_path / "secret").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("call", ["write", "fsync"])
def test_failed_replace_keeps_old_file_and_leaves_no_temporary(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    path = tmp_path / "a.bin"
    path.write_bytes(b"old")

    def refuse(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(storage.os, call, refuse)
    with pytest.raises(StorageError, match=r"cannot write .*a\.bin.*free some space") as caught:
        replace_bytes(path, b"new")
    assert caught.value.errno == errno.ENOSPC
    assert path.read_bytes() == b"old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.bin"]


def test_replace_into_a_missing_folder_says_so(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="folder is gone") as caught:
        replace_bytes(tmp_path / "no" / "a", b"")
    assert caught.value.errno == errno.ENOENT


def test_leftovers_of_a_killed_replace_are_removed(tmp_path: Path) -> None:
    (tmp_path / ".a.json.0123.midstep-tmp").write_bytes(b"half")
    (tmp_path / "kept.json").write_bytes(b"{}")
    assert remove_temporaries(tmp_path) == [".a.json.0123.midstep-tmp"]
    assert [entry.name for entry in tmp_path.iterdir()] == ["kept.json"]


def test_append_returns_offsets_and_goes_on_after_reopening(tmp_path: Path) -> None:
    file = AppendFile(tmp_path / "log")
    assert [file.append(b"abc"), file.append(b"de")] == [0, 3]
    assert file.unsynced
    file.sync()
    assert not file.unsynced
    file.close()
    file.close()
    again = AppendFile(tmp_path / "log")
    assert again.append(b"f") == 5
    again.close()
    assert (tmp_path / "log").read_bytes() == b"abcdef"


def test_short_write_is_taken_back_and_the_next_append_fits(tmp_path: Path) -> None:
    """A limit on the file's size makes the kernel write a part of the record only."""
    path = tmp_path / "log"

    def work(acknowledge):
        file = AppendFile(path)
        file.append(b"whole")
        hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
        resource.setrlimit(resource.RLIMIT_FSIZE, (8, hard))
        try:
            file.append(b"cut short")
        except StorageError as error:
            acknowledge([error.errno, str(error), path.read_bytes().decode(), file.size])
        resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
        file.append(b" again")
        file.close()

    [[number, words, content, size]] = run_forked(work)
    assert number == errno.ENOSPC
    assert "only 3 of 9 bytes" in words
    assert (content, size) == ("whole", 5)
    assert path.read_bytes() == b"whole again"


def test_what_could_not_be_taken_back_goes_before_the_next_append(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = AppendFile(tmp_path / "log")
    file.append(b"whole")

    def refuse(*_: object) -> None:
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as patch:
        write = os.write
        patch.setattr(storage.os, "write", lambda fd, data: write(fd, data[:2]))
        patch.setattr(storage.os, "ftruncate", refuse)
        with pytest.raises(StorageError):
            file.append(b"torn")
    assert (tmp_path / "log").read_bytes() == b"wholeto"
    file.append(b"!")
    file.close()
    assert (tmp_path / "log").read_bytes() == b"whole!"


def test_failed_sync_is_reported_once_and_not_retried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = AppendFile(tmp_path / "log")
    file.append(b"x")

    def refuse(*_: object) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(storage.os, "fsync", refuse)
    with pytest.raises(StorageError, match="check it before trusting"):
        file.sync()
    assert not file.unsynced
    file.close()


@pytest.mark.parametrize("change", ["moved", "deleted", "replaced"])
def test_a_file_that_is_no_longer_there_is_noticed(tmp_path: Path, change: str) -> None:
    path = tmp_path / "log"
    file = AppendFile(path)
    assert file.in_place()
    if change == "deleted":
        path.unlink()
    else:
        path.rename(tmp_path / "elsewhere")
        if change == "replaced":
            path.write_bytes(b"")
    assert not file.in_place()
    file.close()


def test_out_of_descriptors_names_the_remedy(tmp_path: Path) -> None:
    def work(acknowledge):
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        used = max(int(name) for name in os.listdir("/proc/self/fd"))  # noqa: PTH208
        resource.setrlimit(resource.RLIMIT_NOFILE, (used + 1, hard))
        held = []
        try:
            while True:
                held.append(AppendFile(tmp_path / f"log{len(held)}"))
        except StorageError as error:
            acknowledge([error.errno, str(error)])

    [[number, words]] = run_forked(work)
    assert number == errno.EMFILE
    assert "ulimit -n" in words
