"""Files of version 1 are read by every reader; a version that is not known is refused."""

from __future__ import annotations

import json
import math
import shutil
from pathlib import Path

import pytest

from midstep.core.errors import FormatError
from midstep.facts import FactsReader, FactsTail, FactsWriter, RunIndex, end_state, load_runs
from midstep.facts.format.version_one import read_version_one_csv, upcast_line
from midstep.facts.write.scalars_csv import epoch_records
from tests.golden.make_version_one import BORN, EPOCHS, NAN_AT

GOLDEN = Path(__file__).parents[2] / "golden" / "version_one"
AE, TABLE = "run_20250301_120000_ae", "run_20250301_130000_table"


@pytest.fixture
def runs(tmp_path):
    """A copy of the golden runs."""
    return Path(shutil.copytree(GOLDEN, tmp_path / "runs"))


def test_every_reader_gets_the_records_of_version_one(runs):
    reader = FactsReader(runs / AE)
    events = reader.events()
    assert [event["seq"] for event in events] == list(range(1, EPOCHS + 4))
    assert {event["schema_version"] for event in events} == {2}
    assert not any(name.startswith("history_") for event in events for name in event)
    assert reader.problems == []
    assert reader.header()["step"] == 0
    tail = FactsTail(runs / AE, after_seq=5)
    assert [record.seq for record in tail.poll()] == list(range(6, EPOCHS + 4))
    assert end_state(runs / AE).state == "finished"
    train = [record for record in epoch_records(runs / AE) if record["split"] == "train"]
    assert [record["epoch"] for record in train] == list(range(EPOCHS))
    index = RunIndex(runs, "memory")
    index.refresh()
    row = next(row for row in index.rows().rows if row.name == AE)
    assert (row.state, row.epoch, row.why) == ("finished", EPOCHS - 1, None)
    # Its name says when it began, and its last record how long it took.
    assert row.started_at == 1740830400.0
    assert row.ended_at == row.started_at + 20.0
    assert row.summary["best_val_loss"] == 1.5 / EPOCHS
    assert index.histories()[row.id].by_epoch("late") == {
        epoch: float(epoch) for epoch in range(BORN, EPOCHS)
    }


def test_reading_on_from_the_middle_numbers_the_lines_alike(runs):
    path = runs / AE / "facts" / "events.jsonl"
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(lines[:4]))
    index = RunIndex(runs, "memory")
    index.refresh()
    tail = FactsTail(runs / AE)
    assert [record.seq for record in tail.poll()] == [1, 2, 3, 4]
    path.write_text("".join(lines))
    index.refresh()
    assert [record.seq for record in tail.poll()] == list(range(5, EPOCHS + 4))
    fresh = RunIndex(runs, "memory")
    fresh.refresh()
    assert index.rows().rows == fresh.rows().rows


def test_a_metric_born_late_neither_shifts_nor_breaks_a_column(runs):
    runs_df, per_epoch, order = load_runs([runs / AE, runs / TABLE], require_complete=False)
    assert order == [str(runs / AE), str(runs / TABLE)]
    for run_dir in order:
        frame = per_epoch[run_dir]
        assert frame["epoch"].tolist() == list(range(EPOCHS))
        assert frame["val_loss"].tolist() == [1.5 / (epoch + 1) for epoch in range(EPOCHS)]
        assert math.isnan(frame["train_loss"][NAN_AT])
        assert frame["metric_recon"][9] == 0.2
    late = per_epoch[order[0]]["metric_late"]
    assert late[:BORN].isna().all()
    assert late[BORN:].tolist() == [7.0, 8.0, 9.0]
    row = runs_df.iloc[0]
    assert (row.encoder, row.tokenizer, row.decoder, row.loop) == ("mlp", "vq", "mlp", "ae")
    assert (row.seed, row.latent_dim, row.codebook_size, row.dataset) == (3, 32, 512, "h5")
    assert (row.best_epoch, row.best_val_loss, row.total_time_s) == (9, 0.15, 20.0)
    assert (row["override.loop"], row["override.phase1.trainer.seed"]) == ("ae", "3")
    assert row.test_loss == 0.2


def test_a_table_with_epochs_that_are_none_or_giant_cells_is_no_other_error(tmp_path):
    (tmp_path / "facts").mkdir()
    table = tmp_path / "facts" / "scalars.csv"
    table.write_text("epoch,train_loss\ninf,1\nnan,1\n0.5,1\n2,0.25\n")
    assert [record["epoch"] for record in read_version_one_csv(tmp_path)] == [2]
    table.write_text(f"epoch,train_loss\n2,{'9' * 200_000}\n")
    with pytest.raises(FormatError, match=r"scalars\.csv cannot be read as CSV"):
        read_version_one_csv(tmp_path)


def test_a_writer_continues_a_run_of_version_one_without_quarantine(runs):
    before = (runs / AE / "facts" / "events.jsonl").read_bytes()
    with FactsWriter(runs / AE, attempt=1) as writer:
        seq = writer.event("on_epoch_end", epoch=EPOCHS, train_loss=0.01)
    assert seq == EPOCHS + 4
    assert (runs / AE / "facts" / "events.jsonl").read_bytes().startswith(before)
    assert not (runs / AE / "facts" / "quarantine").exists()
    assert [event["seq"] for event in FactsReader(runs / AE).events()] == [*range(1, EPOCHS + 5)]


def test_an_unknown_version_is_refused_with_the_file_named(runs):
    path = runs / AE / "facts" / "events.jsonl"
    path.write_text(path.read_text().replace('"schema_version": 1', '"schema_version": 7'))
    reader = FactsReader(runs / AE)
    assert reader.events() == []
    assert all("events.jsonl: record" in each and "version 7" in each for each in reader.problems)
    runs_df, _, _ = load_runs([runs / AE])
    [left_out] = runs_df.attrs["excluded"]
    assert "events.jsonl has records of schema version 7" in left_out["reason"]


@pytest.mark.parametrize(
    "raw",
    [
        b'{"schema_version": 1, "moment": "on_start"',
        b'{"schema_version": 2, "moment": "on_start"}',
        b'{"schema_version": 1, "moment": "on_start", "crc": "00000000"}',
        b'{"schema_version": true, "moment": "on_start"}',
        b'{"schema_version": 1, "moment": "../x"}',
        b'["schema_version", 1]',
        b'{"schema_version": 1, "moment": ' + b"[" * 100_000,
    ],
)
def test_a_line_that_no_original_wrote_stays_damaged(raw):
    assert upcast_line(raw, 1) is None


def test_the_time_of_a_line_is_taken_from_its_meta():
    line = {"schema_version": 1, "moment": "on_start", "meta": {"timestamp": "2025-03-01T12:00:00"}}
    event = upcast_line(json.dumps(line).encode(), 1)
    assert event is not None
    assert event.record()["wall"] == 1740830400.0
