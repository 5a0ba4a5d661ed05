"""The audit finds what one split knows of another, on all three levels."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from midstep.core.errors import ConfigError, DatasetError
from midstep.data.build.leak_audit import audit_dataset
from midstep.data.steering.storage.dataset_writer import write_dataset
from midstep.data.text.text_files import Texts, write_texts
from tests.data.steering.table_samples import sample_config, sample_tables

SPLIT_SOURCES = {"train": range(30), "val": range(30, 35), "test": range(35, 40)}
SPLIT_QUESTIONS = {"train": range(19), "val": range(19, 22), "test": range(22, 25)}


def clean_parts() -> tuple[dict[str, Any], dict[str, list[str]]]:
    """Tables whose splits have nothing in common, and their texts."""
    tables = sample_tables()
    chance = np.random.default_rng(0)
    for split, sources in SPLIT_SOURCES.items():
        pairs = tables[f"{split}_idx"]
        for pair in pairs:
            drawn = chance.permutation(list(sources))[:5]
            tables["pair_index"][pair] = chance.choice(list(SPLIT_QUESTIONS[split])), drawn[0]
            tables["hard_negatives"][pair] = drawn[1:]
    texts = {
        "questions": [f"question {number}?" for number in range(25)],
        "sources": [f"Source {number}." for number in range(40)],
        "keywords": [],
    }
    # In so few dimensions random vectors may lie near; these do not.
    for name, count in (("question_embs", 25), ("source_embs", 40)):
        angle = np.arange(count)[:, None] * np.array([0.7, 1.3, 2.1])
        spread = np.concatenate([np.cos(angle), np.sin(angle)], axis=1)
        tables[name] = spread.astype(np.float32)
    return tables, texts


def written(folder: Path, tables: dict[str, Any], texts: dict[str, list[str]] | None) -> Path:
    write_dataset(folder, tables, sample_config())
    for name, lines in (texts or {}).items():
        write_texts(folder, name, lines)
    return folder


def leaks(folder: Path, **settings: Any) -> dict[str, int]:
    report = audit_dataset(folder, **settings)
    assert report.clean == (sum(level.leaks for level in report.levels.values()) == 0)
    return {name: level.leaks for name, level in report.levels.items()}


@pytest.mark.parametrize("with_texts", [True, False])
def test_splits_with_nothing_in_common_are_clean(tmp_path: Path, with_texts: bool) -> None:
    tables, texts = clean_parts()
    folder = written(tmp_path / "d", tables, texts if with_texts else None)
    assert leaks(folder, near_duplicate=0.999) == {
        "question": 0,
        "source_text": 0,
        "near_duplicate": 0,
    }


def used_in(tables: dict[str, Any], split: str, column: int) -> int:
    return int(tables["pair_index"][tables[f"{split}_idx"][0], column])


def test_planted_question_is_found_however_it_is_written(tmp_path: Path) -> None:
    tables, texts = clean_parts()
    one, other = used_in(tables, "train", 0), used_in(tables, "test", 0)
    texts["questions"][other] = f"  QUESTION   {one} "
    folder = written(tmp_path / "d", tables, texts)
    report = audit_dataset(folder, near_duplicate=0.999, write=True)
    assert report.levels["question"].leaks == 1
    assert report.levels["question"].examples[0] == {
        "kind": "question",
        "split_a": "train",
        "row_a": one,
        "split_b": "test",
        "row_b": other,
        "text": f"question {one}?",
    }
    assert report.levels["source_text"].leaks == 0
    assert json.loads((folder / "audit.json").read_text()) == report.to_json()
    assert report.to_json()["clean"] is False


def test_question_of_two_splits_is_found_without_texts(tmp_path: Path) -> None:
    tables, _ = clean_parts()
    one, pair = used_in(tables, "train", 0), tables["val_idx"][0]
    tables["pair_index"][pair, 0] = one
    found = leaks(written(tmp_path / "d", tables, None), near_duplicate=0.999)
    assert found["question"] == 1


def test_planted_source_text_is_found(tmp_path: Path) -> None:
    tables, texts = clean_parts()
    one, other = used_in(tables, "train", 1), used_in(tables, "val", 1)
    texts["sources"][other] = texts["sources"][one].upper()
    found = leaks(written(tmp_path / "d", tables, texts), near_duplicate=0.999)
    assert found == {"question": 0, "source_text": 1, "near_duplicate": 0}


def test_validation_source_among_training_negatives_is_found(tmp_path: Path) -> None:
    tables, texts = clean_parts()
    tables["hard_negatives"][tables["train_idx"][5], 1] = used_in(tables, "val", 1)
    found = leaks(written(tmp_path / "d", tables, texts), near_duplicate=0.999)
    assert found == {"question": 0, "source_text": 1, "near_duplicate": 0}


@pytest.mark.parametrize(("table", "column"), [("question_embs", 0), ("source_embs", 1)])
def test_planted_near_duplicate_is_found(tmp_path: Path, table: str, column: int) -> None:
    tables, texts = clean_parts()
    one, other = used_in(tables, "val", column), used_in(tables, "test", column)
    tables[table][other] = 3 * tables[table][one] + 0.01
    folder = written(tmp_path / "d", tables, texts)
    report = audit_dataset(folder, near_duplicate=0.999)
    level = report.levels["near_duplicate"]
    assert {name: level.leaks for name, level in report.levels.items()} == {
        "question": 0,
        "source_text": 0,
        "near_duplicate": 1,
    }
    assert (level.examples[0]["row_a"], level.examples[0]["row_b"]) == (one, other)
    assert level.examples[0]["similarity"] > 0.999
    assert level.threshold == 0.999


def test_texts_are_read_a_row_at_a_time(tmp_path: Path) -> None:
    lines = ['a "quoted" line\nand another', "", "ωμέγα \u2028 end"]
    write_texts(tmp_path, "questions", lines)
    texts = Texts(tmp_path, "questions")
    assert [texts[row] for row in (2, 0, 1)] == [lines[2], lines[0], lines[1]]
    assert len(texts) == 3
    raw = (tmp_path / "texts" / "questions.jsonl").read_bytes()
    offsets = np.load(tmp_path / "texts" / "questions.offsets.npy")
    assert json.loads(raw[offsets[2] : offsets[3]]) == lines[2]
    write_texts(tmp_path, "keywords", [])
    assert len(Texts(tmp_path, "keywords")) == 0


@pytest.mark.parametrize("value", [7, 1.01, 0, -0.5, float("nan"), float("inf")])
def test_threshold_that_is_no_cosine_is_refused_before_anything_is_read(value, tmp_path) -> None:
    with pytest.raises(ConfigError, match="near_duplicate must be a cosine above 0 and up to 1"):
        audit_dataset(tmp_path / "not there", near_duplicate=value)


def test_threshold_of_a_strange_build_file_is_not_believed(tmp_path: Path) -> None:
    folder = written(tmp_path / "d", *clean_parts())
    (folder / "build.json").write_text(json.dumps({"config": {"near_duplicate": 7}}))
    assert audit_dataset(folder).levels["near_duplicate"].threshold == 0.95


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize(("table", "column"), [("question_embs", 0), ("source_embs", 1)])
def test_vectors_that_are_not_finite_are_no_clean_audit(tmp_path, table, column, value) -> None:
    tables, texts = clean_parts()
    row = int(tables["pair_index"][0, column])
    folder = written(tmp_path / "d", tables, texts)
    stored = np.load(folder / f"{table}.npy", mmap_mode="r+")
    stored[row, 1] = value
    stored.flush()
    with pytest.raises(DatasetError, match="cannot be audited") as caught:
        audit_dataset(folder, write=True)
    assert f"{table}[{row}] has a value that is not finite" in str(caught.value)
    assert not (folder / "audit.json").exists()
