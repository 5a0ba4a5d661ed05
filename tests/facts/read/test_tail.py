"""A tail gives every record of a run once and in order, while the files grow."""

from __future__ import annotations

import shutil
import tracemalloc
from pathlib import Path

import pytest

from midstep.core.moments import Moment
from midstep.facts import (
    EventRecord,
    FactsTail,
    FactsWriter,
    StepRows,
)
from midstep.facts.read import fact_files


@pytest.fixture(params=[False, True], ids=["opened", "held"])
def held(request: pytest.FixtureRequest) -> bool:
    """Whether the files are held open between two looks."""
    return bool(request.param)


def numbers(items: list[EventRecord | StepRows]) -> list[int]:
    return [seq for item in items for seq in range(item.seq, item.last_seq + 1)]


@pytest.mark.usefixtures("no_slow_writes")
def test_a_tail_gives_each_record_once_in_order_as_it_is_written(
    tmp_path: Path, held: bool
) -> None:
    tail = FactsTail(tmp_path, held=held)
    assert tail.poll() == []
    seen: list[int] = []
    with FactsWriter(tmp_path) as facts:
        for step in range(300):
            facts.log(step, loss=float(step))
            if step % 7 == 0:
                facts.log(step, lr=0.1)
            if step % 50 == 0:
                facts.event(Moment.STEP, step=step)
            if step % 13 == 0:
                seen += numbers(tail.poll())
                assert seen == list(range(1, facts.written + 1))
        seen += numbers(tail.poll())
        assert tail.poll() == []
        assert seen == list(range(1, facts.written + 1))
    assert tail.problems == []
    tail.close()
    assert tail.poll() == []
    tail.close()


@pytest.mark.usefixtures("no_slow_writes")
def test_a_tail_gives_columns_of_rows_with_the_same_names(tmp_path: Path) -> None:
    with FactsWriter(tmp_path) as facts:
        facts.log(1, loss=1.0, lr=0.5)
        facts.log(2, loss=2.0, lr=0.5)
        facts.event(Moment.STEP, step=2)
        facts.log(3, loss=3.0)
    first, event, second = FactsTail(tmp_path).poll()
    assert isinstance(first, StepRows)
    assert first.step.tolist() == [1, 2]
    assert {name: column.tolist() for name, column in first.columns.items()} == {
        "loss": [1.0, 2.0],
        "lr": [0.5, 0.5],
    }
    assert len(first.wall) == 2
    assert isinstance(event, EventRecord)
    assert event.record["step"] == 2
    assert isinstance(second, StepRows)
    assert list(second.columns) == ["loss"]


@pytest.mark.usefixtures("no_slow_writes")
def test_a_tail_starts_behind_a_number(tmp_path: Path) -> None:
    with FactsWriter(tmp_path) as facts:
        for step in range(10):
            facts.log(step, loss=float(step))
        facts.event(Moment.STEP)
    tail = FactsTail(tmp_path, after_seq=7)
    assert numbers(tail.poll()) == [8, 9, 10, 11]
    assert tail.problems == []


@pytest.mark.usefixtures("no_slow_writes")
def test_a_tail_follows_into_the_next_attempt_and_timeline(tmp_path: Path, held: bool) -> None:
    tail = FactsTail(tmp_path, held=held)
    with FactsWriter(tmp_path, attempt=1) as facts:
        facts.log(1, loss=1.0)
    assert numbers(tail.poll()) == [1]
    with FactsWriter(tmp_path, attempt=2) as facts:
        facts.log(2, loss=2.0)
        facts.timeline = 1
        facts.log(1, loss=1.5)
        items = tail.poll()
    assert [(item.seq, item.timeline) for item in items] == [(2, 0), (3, 1)]
    tail.close()


@pytest.mark.usefixtures("no_slow_writes")
def test_records_that_arrive_out_of_order_in_the_two_files_are_put_in_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The event is written after the events were read and before the steps are."""
    tail = FactsTail(tmp_path)
    with FactsWriter(tmp_path) as facts:
        facts.log(1, loss=1.0)
        changed = tail._files.changed_steps

        def write_first():
            monkeypatch.undo()
            facts.event(Moment.STEP)
            facts.log(2, loss=2.0)
            return changed()

        monkeypatch.setattr(tail._files, "changed_steps", write_first)
        assert numbers(tail.poll()) == [1, 2, 3]
    assert tail.problems == []


def test_a_missing_record_is_reported_and_the_rest_goes_on(tmp_path: Path) -> None:
    with FactsWriter(tmp_path) as facts:
        facts.log(1, loss=1.0)
        facts.event(Moment.STEP)
        facts.log(2, loss=2.0)
    (tmp_path / "facts/events.jsonl").write_bytes(b"")
    tail = FactsTail(tmp_path)
    assert numbers(tail.poll()) == [1, 3]
    assert tail.problems == ["records 2 to 2 are missing (damaged, or lost in a power cut)"]


@pytest.mark.usefixtures("no_slow_writes")
def test_a_run_directory_made_anew_is_read_anew(
    tmp_path: Path, held: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fact_files, "CHECK_PATHS_S", 0.0)
    run, tail = tmp_path / "run", FactsTail(tmp_path / "run", held=held)
    with FactsWriter(run) as facts:
        for step in range(9):
            facts.log(step, loss=1.0)
    assert numbers(tail.poll()) == list(range(1, 10))
    shutil.rmtree(run)
    with FactsWriter(run) as facts:
        facts.log(0, loss=1.0)
    assert tail.poll() == []
    assert any("replaced" in problem for problem in tail.problems)
    tail.close()


@pytest.mark.usefixtures("no_slow_writes")
def test_to_advance_reads_all_and_keeps_nothing(tmp_path: Path) -> None:
    with FactsWriter(tmp_path) as facts:
        for step in range(30_000):
            facts.log(step, loss=1.0, **{f"metric_{i}": 1.0 for i in range(8)})
            if step % 1000 == 0:
                facts.event("on_step", step=step)
        last = facts.seq
    size = sum(path.stat().st_size for path in (tmp_path / "facts").iterdir())
    tail, other = FactsTail(tmp_path), FactsTail(tmp_path)
    tracemalloc.start()
    try:
        assert tail.advance() == 0
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (tail.last_seq, tail.problems) == (last, [])
    assert kept < size / 10
    assert tail.poll() == []
    other.poll()
    assert other.last_seq == last
