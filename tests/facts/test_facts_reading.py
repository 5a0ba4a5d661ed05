"""Tail, series and reader: everything once, in order, and damage said aloud."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from midstep.core.errors import ConfigError, FormatError
from midstep.core.moments import Moment
from midstep.facts import (
    EventRecord,
    FactsReader,
    FactsTail,
    FactsWriter,
    SeriesStore,
    StepRows,
)
from midstep.facts.format import step_frames as frames_module
from midstep.facts.format.step_frames import FileHeader, file_header
from midstep.facts.read import fact_files
from midstep.facts.read import reader as reader_module
from midstep.facts.write import record_files as ledger_module


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


def test_an_unknown_version_of_a_steps_file_is_refused_by_name(tmp_path: Path) -> None:
    with FactsWriter(tmp_path) as facts:
        facts.log(1, loss=1.0)
    path = tmp_path / "facts/steps.0.1.bin"
    monkey = pytest.MonkeyPatch()
    monkey.setattr(frames_module, "VERSION", 9)
    header = file_header(FileHeader("0123456789ab", 1, 0))
    monkey.undo()
    path.write_bytes(header + path.read_bytes()[64:])
    with pytest.raises(FormatError, match=r"steps\.0\.1\.bin.*version 9"):
        FactsTail(tmp_path).poll()


def test_an_event_of_an_unknown_version_is_listed_as_a_problem(tmp_path: Path) -> None:
    from zlib import crc32

    with FactsWriter(tmp_path) as facts:
        facts.event(Moment.START)
    body = b'{"schema_version":7,"seq":2,"moment":"on_start"'
    with (tmp_path / "facts/events.jsonl").open("ab") as file:
        file.write(body + b',"crc":"%08x"}\n' % crc32(body))
    reader = FactsReader(tmp_path)
    assert len(reader.events()) == 1
    assert "schema version 7" in reader.problems[0]


# -- damage ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def small_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Rows of two layouts with a seal among them, and three events."""
    run_dir = tmp_path_factory.mktemp("small")
    patch = pytest.MonkeyPatch()
    patch.setattr(ledger_module, "SEAL_EVERY_BYTES", 300)
    with FactsWriter(run_dir) as facts:
        facts.event(Moment.START, seed=1)
        for step in range(8):
            facts.log(step, loss=float(step))
            if step % 3 == 0:
                facts.log(step, loss=float(step), lr=0.1)
        facts.event(Moment.EPOCH_END, epoch=0)
        facts.event(Moment.TRAIN_END)
    patch.undo()
    return run_dir


def records(run_dir: Path) -> dict[int, object]:
    from tests.checkers.kill import records_on_disk

    return dict(records_on_disk(run_dir))


@pytest.mark.parametrize("name", ["steps.0.1.bin", "events.jsonl"])
def test_any_flipped_byte_is_reported_and_costs_at_most_its_own_records(
    small_run: Path, tmp_path: Path, name: str
) -> None:
    whole = records(small_run)
    shutil.copytree(small_run, tmp_path, dirs_exist_ok=True)
    path = tmp_path / "facts" / name
    data = path.read_bytes()
    for offset in range(len(data)):
        flipped = bytearray(data)
        flipped[offset] ^= 0x41
        path.write_bytes(flipped)
        found = records(tmp_path)
        lost = whole.keys() - found.keys()
        assert all(whole[seq] == found[seq] for seq in found), f"wrong record after byte {offset}"
        reader = FactsReader(tmp_path)
        is_tail = offset >= len(data) - 56 or (name == "events.jsonl" and offset == len(data) - 1)
        assert reader.problems or is_tail, f"byte {offset} flipped in silence"
        layout_was_hit = any("names of" in problem for problem in reader.problems)
        assert len(lost) <= 2 or layout_was_hit, f"byte {offset} cost {len(lost)} records"


@given(start=st.integers(64, 900), length=st.integers(1, 200), fill=st.binary(min_size=1))
@settings(max_examples=100, deadline=None)
def test_any_overwritten_stretch_gives_no_wrong_record(
    small_run: Path, tmp_path_factory: pytest.TempPathFactory, start: int, length: int, fill: bytes
) -> None:
    run_dir = tmp_path_factory.mktemp("overwritten")
    shutil.copytree(small_run, run_dir, dirs_exist_ok=True)
    path = run_dir / "facts/steps.0.1.bin"
    data = bytearray(path.read_bytes())
    stop = min(len(data), start + length)
    data[start:stop] = (fill * length)[: stop - start]
    path.write_bytes(data)
    whole, found = records(small_run), records(run_dir)
    assert all(whole[seq] == found[seq] for seq in found)


# -- series ----------------------------------------------------------------------------------------


def test_series_are_exact_up_to_the_asked_points_and_buckets_beyond(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    values = rng.normal(size=5000)
    with FactsWriter(tmp_path) as facts:
        for step, value in enumerate(values.tolist()):
            facts.log(step, loss=value)
    store = SeriesStore(tmp_path)
    assert store.refresh()
    assert not store.refresh()
    exact = store.series("loss", points=5000)
    assert exact.exact
    assert np.array_equal(exact.low, values)
    thin = store.series("loss", points=64)
    assert (thin.exact, thin.count, len(thin.step)) == (False, 5000, 64)
    assert thin.low.min() == values.min()
    assert thin.high.max() == values.max()
    for index, (first, last) in enumerate(zip(thin.step, [*thin.step[1:], 5000], strict=True)):
        assert thin.low[index] == values[first:last].min()
        assert thin.high[index] == values[first:last].max()


def test_a_range_of_steps_can_be_asked_for(tmp_path: Path) -> None:
    with FactsWriter(tmp_path) as facts:
        for step in range(0, 100, 10):
            facts.log(step, loss=float(step))
    store = SeriesStore(tmp_path)
    store.refresh()
    assert store.series("loss", start=15, stop=40).step.tolist() == [20, 30]


def test_of_a_step_written_twice_the_highest_timeline_counts_then_the_last(tmp_path: Path) -> None:
    with FactsWriter(tmp_path) as facts:
        for step in range(5):
            facts.log(step, loss=0.0)
        facts.timeline = 1
        for step in range(2, 4):
            facts.log(step, loss=1.0, lr=0.1)
        facts.timeline = 0
        facts.log(3, loss=9.0)
        facts.log(4, loss=4.0)
    store = SeriesStore(tmp_path)
    store.refresh()
    found = store.series("loss")
    assert found.step.tolist() == [0, 1, 2, 3, 4]
    assert found.low.tolist() == [0.0, 0.0, 1.0, 1.0, 4.0]
    assert (store.timeline, store.seq) == (1, 9)


def test_a_store_refreshed_while_written_equals_one_read_afterwards(tmp_path: Path) -> None:
    store = SeriesStore(tmp_path)
    with FactsWriter(tmp_path) as facts:
        for step in range(400):
            facts.log_values(step % 150, {f"loss{step % 3}": float(step), "lr": 0.1})
            if step % 37 == 0:
                store.refresh()
    store.refresh()
    fresh = SeriesStore(tmp_path)
    fresh.refresh()
    assert sorted(store.names) == sorted(fresh.names)
    for name in store.names:
        assert np.array_equal(store.series(name).low, fresh.series(name).low)


def test_nan_in_a_bucket_hides_nothing_else(tmp_path: Path) -> None:
    with FactsWriter(tmp_path) as facts:
        for step in range(10):
            facts.log(step, loss=float("nan") if step != 3 else 5.0)
    store = SeriesStore(tmp_path)
    store.refresh()
    thin = store.series("loss", points=2)
    assert (thin.low[0], thin.high[0]) == (5.0, 5.0)
    assert np.isnan(thin.low[1])


def test_an_unknown_series_names_those_there_are(tmp_path: Path) -> None:
    with FactsWriter(tmp_path) as facts:
        facts.log(1, loss=1.0)
    store = SeriesStore(tmp_path)
    store.refresh()
    with pytest.raises(ConfigError, match="it has loss"):
        store.series("los")


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
