"""Payloads written one at a time, and the CSV that is derived from them."""

from __future__ import annotations

import csv
import threading
from dataclasses import dataclass
from pathlib import Path

import pytest

from midstep.core.moments import Moment
from midstep.facts import (
    FactsReader,
    FactsWriter,
    append_jsonl_event,
    append_scalars_csv,
    build_event_payload,
    write_scalars_csv,
)
from midstep.facts.write import flush_thread
from tests.checkers.kill import assert_facts_survive


def table(run_dir: Path) -> list[dict[str, str]]:
    with (run_dir / "facts/scalars.csv").open(newline="") as file:
        return list(csv.DictReader(file))


@dataclass
class Settings:
    lr: float = 0.1


def test_a_payload_is_written_without_its_histories(tmp_path: Path) -> None:
    payload = build_event_payload(
        "on_epoch_end",
        tmp_path,
        epoch=1,
        train_loss=0.5,
        metrics={"f1": 0.25},
        histories={"train_loss": [1.0, 0.5]},
        cfg=Settings(),
        epoch_time_s=2.0,
    )
    assert payload["histories"] == {"train_loss": [1.0, 0.5]}
    assert append_jsonl_event(tmp_path, payload) == 1
    assert append_jsonl_event(tmp_path, {**payload, "history_val": [1]}) == 2
    first, second = FactsReader(tmp_path).events()
    assert (first["train_loss"], first["epoch_time_s"]) == (0.5, 2.0)
    assert first["config"] == {"lr": 0.1}
    assert not {"histories", "history_val", "run_dir"} & (first.keys() | second.keys())
    assert first["run_id"] == second["run_id"]


@pytest.mark.usefixtures("no_slow_writes")
def test_payloads_go_through_the_writer_that_is_open(tmp_path: Path) -> None:
    with FactsWriter(tmp_path) as facts:
        facts.log(1, loss=1.0)
        assert append_jsonl_event(tmp_path, build_event_payload("on_start", tmp_path)) == 2
        facts.log(2, loss=1.0)
    assert assert_facts_survive(tmp_path) == 3


def test_the_csv_gets_new_columns_without_shifting_old_rows(tmp_path: Path) -> None:
    append_scalars_csv(tmp_path, epoch=0, split="train", train_loss=1.0, metrics={"a": 1.0})
    append_scalars_csv(tmp_path, epoch=1, split="train", train_loss=0.5, metrics={"b": 2.0})
    assert [
        (row["epoch"], row["train_loss"], row["metric_a"], row["metric_b"])
        for row in table(tmp_path)
    ] == [
        ("0", "1.0", "1.0", ""),
        ("1", "0.5", "", "2.0"),
    ]


def test_what_the_events_say_already_is_not_written_twice(tmp_path: Path) -> None:
    payload = build_event_payload("on_epoch_end", tmp_path, epoch=3, train_loss=0.5)
    append_jsonl_event(tmp_path, payload)
    append_scalars_csv(tmp_path, epoch=3, train_loss=0.5)
    assert len(FactsReader(tmp_path).events()) == 1
    append_scalars_csv(tmp_path, epoch=3, val_loss=0.75)
    assert len(FactsReader(tmp_path).events()) == 2
    [row] = table(tmp_path)
    assert (row["train_loss"], row["val_loss"]) == ("0.5", "0.75")


def test_an_epoch_made_again_after_a_rewind_replaces_the_old_one(tmp_path: Path) -> None:
    with FactsWriter(tmp_path) as facts:
        facts.event(Moment.EPOCH_END, epoch=0, train_loss=1.0)
        facts.timeline = 1
        facts.event(Moment.EPOCH_END, epoch=0, train_loss=0.5)
    assert [row["train_loss"] for row in table(tmp_path)] == ["0.5"]


def test_text_that_a_spreadsheet_would_run_is_neutralised(tmp_path: Path) -> None:
    with FactsWriter(tmp_path) as facts:
        facts.event(Moment.EPOCH_END, epoch=0, split='=HYPERLINK("http://x")', train_loss=-0.5)
    [row] = table(tmp_path)
    assert row["split"].startswith("'=")
    assert row["train_loss"] == "-0.5"


def test_a_table_that_takes_long_to_derive_is_left_for_the_end(tmp_path: Path, monkeypatch) -> None:
    """Made anew from all epochs each second it would take ever more of the training's time."""
    monkeypatch.setattr(flush_thread, "SYNC_EVERY_S", 0.01)
    monkeypatch.setattr(flush_thread, "CSV_SHARE", 1e-9)
    derived = threading.Event()

    def derive(run_dir: Path) -> Path:
        derived.set()
        return write_scalars_csv(run_dir)

    monkeypatch.setattr(flush_thread, "write_scalars_csv", derive)
    with FactsWriter(tmp_path) as facts:
        facts.event("on_epoch_end", epoch=0, split="train", train_loss=1.0)
        assert derived.wait(30)
        derived.clear()
        facts.event("on_epoch_end", epoch=1, split="train", train_loss=0.5)
        assert not derived.wait(0.2)
    assert [row["epoch"] for row in table(tmp_path)] == ["0", "1"]
