"""The demo's digits: whole, divided once, and cached without depending on the cache."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest
import torch

from midstep.core.errors import ConfigError, FormatError, MissingExtraError
from midstep.data.sources import digits
from midstep.data.sources.digits import COUNT, load_digits


def test_all_digits_have_every_label_five_hundred_times(tmp_path: Path) -> None:
    found = load_digits("all", cache=tmp_path)
    assert found.images.shape == (COUNT, 1, 28, 28)
    assert found.images.dtype == torch.float32
    assert (found.images.min().item(), found.images.max().item()) == (0.0, 1.0)
    assert found.labels.bincount().tolist() == [500] * 10


def test_train_and_validation_divide_the_digits() -> None:
    train, validation = load_digits("train"), load_digits("val")
    assert (len(train), len(validation)) == (4500, 500)
    assert torch.cat([train.ids, validation.ids]).sort().values.tolist() == list(range(COUNT))
    assert len(validation.labels.unique()) == 10


def test_ids_are_rows_of_the_whole_set() -> None:
    whole, validation = load_digits("all"), load_digits("val")
    assert torch.equal(whole.images[validation.ids], validation.images)
    assert torch.equal(whole.labels[validation.ids], validation.labels)


def test_division_is_the_same_for_everybody() -> None:
    assert load_digits("val").ids[:8].tolist() == [1, 15, 67, 70, 85, 97, 99, 103]


def test_second_load_comes_from_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = load_digits("val", cache=tmp_path)
    monkeypatch.setattr(digits, "_parse", lambda source: pytest.fail("parsed again"))
    assert torch.equal(load_digits("val", cache=tmp_path).images, first.images)


@pytest.mark.parametrize("damage", [b"", b"\x93NUMPY", b"not numpy at all"])
def test_damaged_cache_is_made_again(tmp_path: Path, damage: bytes) -> None:
    whole = load_digits("val", cache=tmp_path)
    (kept,) = tmp_path.glob("digits-*.npy")
    kept.write_bytes(damage)
    assert torch.equal(load_digits("val", cache=tmp_path).images, whole.images)
    assert kept.stat().st_size > COUNT


def test_cache_that_cannot_be_written_only_costs_time(tmp_path: Path) -> None:
    in_the_way = tmp_path / "cache"
    in_the_way.write_text("a file, not a folder")
    assert len(load_digits("val", cache=in_the_way)) == 500


def test_missing_library_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match=r"pip install 'midstep\[demo\]'"):
        load_digits(cache=tmp_path)


def test_damaged_source_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = tmp_path / "mnist_5k.csv.gz"
    source.write_bytes(b"not gzip")
    monkeypatch.setattr(digits, "_find_source", lambda: source)
    with pytest.raises(FormatError, match="Install it again"):
        load_digits(cache=tmp_path)


def test_unknown_split_is_refused() -> None:
    with pytest.raises(ConfigError, match="split must be one of train, val, all"):
        load_digits("test")  # type: ignore[arg-type]
