"""`FactsReader` reads header, events and series, and continues in a file that grew."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from midstep.core.moments import Moment
from midstep.facts import (
    FactsReader,
    FactsWriter,
)
from midstep.facts.read import reader as reader_module

if TYPE_CHECKING:
    import pytest


def test_the_reader_gives_header_events_and_series(tmp_path: Path) -> None:
    reader = FactsReader(tmp_path)
    assert (reader.header(), reader.events(), reader.last_seq) == ({}, [], 0)
    with FactsWriter(tmp_path, attempt=1) as facts:
        facts.event(Moment.START, config={"lr": 0.1})
        facts.log(1, loss=0.5)
    with FactsWriter(tmp_path, attempt=2) as facts:
        facts.event(Moment.START, config={"lr": 0.2})
        facts.event(Moment.TRAIN_END)
    assert reader.header()["config"] == {"lr": 0.2}
    assert [record["seq"] for record in reader.events(after_seq=1, limit=1)] == [3]
    assert reader.series()["loss"].low.tolist() == [0.5]
    assert (reader.last_seq, reader.problems) == (4, [])


# -- a kept reader --------------------------------------------------------------------------------


def test_a_kept_reader_pages_through_a_growing_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader_module, "MARK_EVERY_BYTES", 500)
    reader, seen = FactsReader(tmp_path), []
    assert (reader.events(), reader.header()) == ([], {})
    with FactsWriter(tmp_path) as facts:
        for number in range(60):
            facts.event(Moment.START if number % 20 == 0 else Moment.STEP, number=number)
            if number % 7 == 0:
                page = reader.events(after_seq=seen[-1] if seen else 0, limit=5)
                seen += [record["seq"] for record in page]
                assert reader.header()["number"] == number - number % 20
    seen += [record["seq"] for record in reader.events(after_seq=seen[-1])]
    assert seen == list(range(1, 61))
    for after in range(61):  # also back, from marks that are known by now
        assert [r["seq"] for r in reader.events(after, limit=3)] == list(range(1, 61))[after:][:3]


def test_a_kept_reader_finds_all_records_left_of_a_damaged_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader_module, "MARK_EVERY_BYTES", 1)
    with FactsWriter(tmp_path) as facts:
        for number in range(6):
            facts.event(Moment.STEP, number=number)
    path = tmp_path / "facts/events.jsonl"
    path.write_bytes(path.read_bytes().replace(b"}\n{", b"}#{", 3))  # four records in one line
    reader = FactsReader(tmp_path)
    for after in (0, 1, 2, 3, 4, 5):
        assert [record["seq"] for record in reader.events(after)] == list(range(after + 1, 7))


def test_a_kept_reader_begins_anew_when_the_file_was_replaced(tmp_path: Path) -> None:
    for folder, seed in ((tmp_path / "a", 1), (tmp_path / "b", 2)):
        with FactsWriter(folder) as facts:
            facts.event(Moment.START, seed=seed)
    reader = FactsReader(tmp_path / "a")
    assert reader.header()["seed"] == 1
    (tmp_path / "b/facts/events.jsonl").replace(tmp_path / "a/facts/events.jsonl")
    assert reader.header()["seed"] == 2
    assert [record["seed"] for record in reader.events()] == [2]
