"""Tables for anomaly benchmarks: their splits, and nothing hostile takes memory or runs code."""

from __future__ import annotations

import io
import struct
import zipfile
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from midstep.core.errors import FormatError
from midstep.data.sources import DataConfig, load_source, make_dataloaders
from midstep.data.sources.npz_tables import read_table


@pytest.fixture
def table(tmp_path: Path) -> Path:
    random = np.random.default_rng(0)
    labels = (np.arange(220) % 11 == 0).astype(np.int32)
    path = tmp_path / "table.npz"
    np.savez_compressed(path, X=random.normal(7, 4, (220, 3)), y=labels)
    return path


def npy(array: Any) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()


def archive(path: Path, **members: bytes) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for name, data in members.items():
            file.writestr(f"{name}.npy", data)
    return path


def header(shape: str, kind: str = "<f8") -> bytes:
    text = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}".encode()
    text += b" " * (-(len(text) + 11) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text


def test_training_sees_half_of_the_normal_rows_and_no_anomaly(table: Path) -> None:
    *loaders, meta = make_dataloaders(DataConfig(name="npz", path=str(table)), seed=1)
    train, val, test = (torch.cat([batch["label"] for batch in loader]) for loader in loaders)
    assert meta["splits"] == {"train": 90, "val": 10, "test": 120}
    assert (int(train.sum()), int(val.sum()), int(test.sum())) == (0, 0, 20)
    assert meta["anomalies"] == {"test": 20}
    rows = torch.cat([batch["x"] for loader in loaders for batch in loader])
    assert rows.shape == (220, 3)
    assert len(rows.unique(dim=0)) == 220
    scaled = torch.cat([batch["x"] for batch in loaders[0]]).double()
    assert torch.allclose(scaled.mean(dim=0), torch.zeros(3).double(), atol=1e-6)
    assert torch.allclose(scaled.std(dim=0, correction=0), torch.ones(3).double(), atol=1e-6)


def test_the_seed_decides_the_splits(table: Path) -> None:
    config = DataConfig(name="npz", path=str(table))
    first, again, other = (load_source(replace(config, seed=seed)) for seed in (1, 1, 2))
    assert first.fingerprint == again.fingerprint != other.fingerprint
    assert torch.equal(first.splits["val"][0]["x"], again.splits["val"][0]["x"])


def test_a_table_without_labels_is_divided_too(tmp_path: Path) -> None:
    path = tmp_path / "plain.npz"
    np.savez(path, X=np.asfortranarray(np.arange(60, dtype=np.int16).reshape(20, 3)))
    data = load_source(DataConfig(name="npz", path=str(path)))
    assert data.meta["splits"] == {"train": 16, "val": 2, "test": 2}
    scale = data.meta["normalisation"]["x"]
    row = data.splits["val"][0]["x"].double() * torch.tensor(scale["std"])
    restored = (row + torch.tensor(scale["mean"])).round().tolist()
    assert restored[1:] == [restored[0] + 1, restored[0] + 2]  # rows, not columns


GIB = 1 << 30
ROWS = npy(np.zeros((4, 2)))
WRONG: dict[str, tuple[dict[str, bytes], str]] = {
    "no X": ({"Z": ROWS}, "has no array 'X'.* it holds Z"),
    "objects": ({"X": npy(np.array([[{}]], dtype=object))}, "type object, expected numbers"),
    "too large": ({"X": header(f"({8 * GIB}, 2)") + bytes(64)}, "has the shape .* the file holds"),
    "too short": ({"X": ROWS[:-8]}, "has the shape"),
    "too long": ({"X": ROWS + bytes(8)}, "has the shape"),
    "negative": ({"X": header("(-1, -2)") + bytes(16)}, "expected no negative size"),
    "no header": ({"X": b"pickled"}, "not an array in .npy format"),
    "header bomb": ({"X": header("(" + "1," * 9_000 + ")")}, "not an array in .npy format"),
    "half a header": ({"X": header("(4, 2", "<f8").replace(b"}", b" ")}, "not an array in .npy"),
    "one dimension": ({"X": npy(np.zeros(4))}, r"shape \[4\], expected rows × features"),
    "no rows": ({"X": npy(np.zeros((0, 2)))}, "expected rows × features"),
    "not finite": ({"X": npy(np.array([[1.0], [np.inf]]))}, "row 1 has a value that is not finite"),
    "labels": ({"X": ROWS, "y": npy(np.zeros(3))}, "y has the shape .* each of the 4 rows"),
    "classes": ({"X": ROWS, "y": npy(np.arange(4))}, "0 for a normal row and 1 for an anomaly"),
    "few rows": ({"X": ROWS, "y": npy(np.array([0, 1, 1, 1]))}, "too few normal rows"),
    "text": ({"X": npy(np.array([["a"]]))}, "expected numbers"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_file_is_refused_in_one_line_that_names_it(name: str, tmp_path: Path) -> None:
    members, message = WRONG[name]
    path = archive(tmp_path / "wrong.npz", **members)
    with pytest.raises(FormatError, match=message) as caught:
        load_source(DataConfig(name="npz", path=str(path)))
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_an_archive_that_is_damaged_or_lists_a_name_twice_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "wrong.npz"
    path.write_bytes(b"PK\x03\x04 and no more")
    with pytest.raises(FormatError, match="cannot be read as an"):
        load_source(DataConfig(name="npz", path=str(path)))
    data = bytearray(archive(path, X=npy(np.arange(400.0).reshape(40, 10))).read_bytes())
    data[300:340] = bytes(40)
    path.write_bytes(data)
    with pytest.raises(FormatError, match="cannot be read as an"):
        load_source(DataConfig(name="npz", path=str(path)))
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("X.npy", ROWS)
        file.writestr("X", ROWS)
    with pytest.raises(FormatError, match="names twice"):
        load_source(DataConfig(name="npz", path=str(path)))


@pytest.mark.parametrize("method", [zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_no_flipped_byte_of_an_archive_is_an_error_of_another_kind(
    method: int, tmp_path: Path
) -> None:
    draw, path = np.random.default_rng(0), tmp_path / "flipped.npz"
    with zipfile.ZipFile(path, "w", method) as file:
        file.writestr("X.npy", npy(draw.normal(size=(20, 3))))
    data = path.read_bytes()
    for at in draw.integers(len(data), size=150):
        path.write_bytes(data[:at] + bytes([data[at] ^ 0xFF]) + data[at + 1 :])
        with suppress(FormatError):
            read_table(path)
