"""What the writer tells in its own process is what lies on the disk."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from midstep.core.moments import Moment
from midstep.facts import (
    EventRecord,
    FactsTail,
    FactsWriter,
    LiveRows,
    LiveTail,
    StepRows,
)
from midstep.facts.write import record_files

LAYOUTS = [("loss",), ("loss", "lr"), ("accuracy",), tuple(f"metric_{i}" for i in range(30))]
ODD = [float("nan"), float("inf"), -0.0, 5e-324, 1 / 3, 10**15]


def plain(items: Sequence[EventRecord | StepRows | LiveRows]) -> list[Any]:
    """Records one by one, however they came together."""
    found: list[Any] = []
    for item in items:
        if isinstance(item, EventRecord):
            found.append((item.seq, item.moment, item.timeline, item.json()))
            continue
        steps, columns = item.listed()
        for row, step in enumerate(steps):
            values = {name: repr(column[row]) for name, column in columns.items()}
            found.append((item.first_seq + row, item.timeline, step, values))
        assert item.last_seq == item.first_seq + len(steps) - 1
    return found


def write_some(facts: FactsWriter, chance: random.Random, records: int) -> None:
    for _ in range(records):
        kind = chance.random()
        if kind < 0.1:
            facts.event(Moment.INTERVENTION, kind="note", text="ünïcode \n", number=chance.random())
        elif kind < 0.13:
            facts.timeline += 1
        else:
            names = chance.choice(LAYOUTS)
            facts.log_values(
                chance.randrange(-5, 10**6), {name: chance.choice(ODD) for name in names}
            )


@pytest.mark.usefixtures("no_slow_writes")
@pytest.mark.parametrize("seed", range(5))
def test_it_gives_what_the_disk_does(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    with FactsWriter(tmp_path) as facts:
        write_some(facts, chance, 20)
        own, disk = LiveTail(facts), FactsTail(tmp_path, after_seq=facts.seq)
        for _ in range(10):
            write_some(facts, chance, chance.randrange(60))
            assert plain(own.poll()) == plain(disk.poll())
            assert own.last_seq == disk.last_seq
        assert own.is_cheap
        assert own.poll() == []


@pytest.mark.usefixtures("no_slow_writes")
def test_what_found_no_room_is_read_from_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record_files, "MOST_BYTES", 300)
    with FactsWriter(tmp_path) as facts:
        tail = LiveTail(facts)
        for step in range(50):
            facts.log(step, loss=0.5)
        first = plain(tail.poll())
        assert 0 < len(first) < 50
        for step in range(50, 60):
            facts.log(step, loss=0.5)
        seen = [*first, *plain(tail.poll()), *plain(tail.poll())]
        assert [step for _, _, step, *_ in seen] == list(range(60))
        assert not tail.is_cheap
        tail.close()


@pytest.mark.usefixtures("no_slow_writes")
def test_a_signal_before_a_record_is_told_loses_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with FactsWriter(tmp_path) as facts:
        tail = LiveTail(facts)
        facts.log(1, loss=0.5)
        with monkeypatch.context() as patch:
            patch.setattr(record_files.FollowerQueue, "put", _interrupted)
            with pytest.raises(KeyboardInterrupt):
                facts.log(2, loss=0.25)
        facts.log(3, loss=0.125)
        seen = [*plain(tail.poll()), *plain(tail.poll())]
        assert [step for _, _, step, *_ in seen] == [1, 2, 3]
        tail.close()


def _interrupted(*_: object) -> None:
    raise KeyboardInterrupt


def test_behind_the_writers_end_it_follows_the_next_one(tmp_path: Path) -> None:
    with FactsWriter(tmp_path) as facts:
        tail = LiveTail(facts)
        facts.log(1, loss=0.5)
    seen = plain(tail.poll())
    with FactsWriter(tmp_path, attempt=2) as facts:
        facts.log(2, loss=0.25)
        seen += plain(tail.poll())
    tail.close()
    assert [step for _, _, step, *_ in seen] == [1, 2]


def test_one_that_is_closed_is_told_no_more(tmp_path: Path) -> None:
    with FactsWriter(tmp_path) as facts:
        kept, closed = LiveTail(facts), LiveTail(facts)
        closed.close()
        closed.close()
        facts.log(1, loss=0.5)
        assert closed.poll() == []
        assert len(kept.poll()) == 1
