"""The user's folders follow the XDG variables, and one outputs folder has one name."""

from __future__ import annotations

from pathlib import Path

import pytest

from midstep.core.errors import StorageError
from midstep.core.files.user_state import hash_folder, read_state_file, root_file, user_folder


@pytest.mark.parametrize(
    ("kind", "variable", "default"),
    [("state", "XDG_STATE_HOME", ".local/state"), ("cache", "XDG_CACHE_HOME", ".cache")],
)
def test_folders_follow_the_variables(kind, variable, default, tmp_path, monkeypatch):
    monkeypatch.setenv(variable, str(tmp_path / "xdg"))
    assert user_folder(kind) == tmp_path / "xdg" / "midstep"
    monkeypatch.delenv(variable)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert user_folder(kind) == tmp_path / default / "midstep"


@pytest.mark.parametrize("kind", ["state", "cache"])
def test_a_user_without_a_home_is_told_what_to_set(kind, monkeypatch):
    def no_home() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv(f"XDG_{kind.upper()}_HOME")
    monkeypatch.setattr(Path, "home", no_home)
    with pytest.raises(StorageError, match=f"no home folder; set XDG_{kind.upper()}_HOME"):
        user_folder(kind)


def test_links_to_one_folder_share_a_name(tmp_path):
    (tmp_path / "outputs").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "outputs")
    assert hash_folder(tmp_path / "link") == hash_folder(tmp_path / "outputs")
    assert root_file(tmp_path / "link", "token") == root_file(tmp_path / "outputs", "token")
    assert hash_folder(tmp_path) != hash_folder(tmp_path / "outputs")


@pytest.mark.parametrize("content", [None, b"", b"{", b"[1]", b"\xff"])
def test_what_is_no_object_reads_as_none(content, tmp_path):
    if content is not None:
        (tmp_path / "file").write_bytes(content)
    assert read_state_file(tmp_path / "file") is None


def test_an_object_is_read(tmp_path):
    (tmp_path / "file").write_bytes(b'{"port": 1}')
    assert read_state_file(tmp_path / "file") == {"port": 1}
