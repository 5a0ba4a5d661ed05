"""When records wait for a slow disk. The clock is ours: it moves by what each write takes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from midstep.facts import FactsReader
from midstep.facts.format.paths import ensure_facts_dir
from midstep.facts.format.step_frames import FileHeader
from midstep.facts.write import write_queue
from midstep.facts.write.record_files import RecordFiles
from midstep.facts.write.write_queue import SLOW_WRITE_S, WriteQueue
from tests.checkers.kill import records_on_disk


class TimedLedger(RecordFiles):
    """A ledger whose writes take `takes_s` each."""

    def __init__(self, run_dir: Path) -> None:
        ensure_facts_dir(run_dir)
        super().__init__(run_dir, FileHeader("0" * 12, 1, 0), last_seq=0, layouts=0)
        self.clock = self.takes_s = 0.0

    def write_row(self, *row: Any) -> None:
        super().write_row(*row)
        self.clock += self.takes_s


@pytest.fixture
def ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    timed = TimedLedger(tmp_path)
    monkeypatch.setattr(write_queue, "monotonic", lambda: timed.clock)
    yield timed
    timed.close()


@pytest.mark.parametrize(
    ("settings", "takes_s", "waits"),
    [
        ({}, 0.9 * SLOW_WRITE_S, False),
        ({}, 1.1 * SLOW_WRITE_S, True),
        ({"slow_write_s": 0.1}, 0.09, False),
        ({"slow_write_s": 0.1}, 0.11, True),
    ],
)
def test_records_wait_after_a_write_that_took_longer_than_the_limit(
    ledger: TimedLedger, settings: dict[str, float], takes_s: float, waits: bool
) -> None:
    queue = WriteQueue(ledger, timeline=0, **settings)
    ledger.takes_s = takes_s
    assert queue.put_row(1, ("loss",), (0.5,))
    assert queue.is_queueing is waits
    assert queue.put_row(2, ("loss",), (0.5,)) is not waits


def test_rows_that_waited_are_written_in_order_and_one_note_says_so(
    ledger: TimedLedger, tmp_path: Path
) -> None:
    queue = WriteQueue(ledger, timeline=0)
    ledger.takes_s = 0.05
    assert queue.put_row(1, ("loss",), (1.0,))
    for step in (2, 3, 4):
        assert not queue.put_row(step, ("loss",), (float(step),))
        queue.queue_row(step, ("loss",), (float(step),))
    assert (len(queue), ledger.seq) == (3, 1)  # callers do not write while the disk is slow
    ledger.clock += 1.0
    ledger.takes_s = 0.0
    assert queue.drain()
    assert (queue.is_queueing, queue.dropped, queue.fault) == (False, 0, None)
    assert queue.put_row(5, ("loss",), (5.0,))
    rows = [record for _, record in sorted(records_on_disk(tmp_path)) if "loss" in record]
    assert rows == [{"step": step, "loss": float(step)} for step in (1, 2, 3, 4, 5)]
    [note] = FactsReader(tmp_path).events()
    assert (note["kind"], note["reason"][:20]) == ("durability_lost", "a write took 50 ms: ")


def test_a_slow_write_behind_which_nothing_waited_is_not_noted(
    ledger: TimedLedger, tmp_path: Path
) -> None:
    queue = WriteQueue(ledger, timeline=0)
    ledger.takes_s = 0.05
    assert queue.put_row(1, ("loss",), (1.0,))
    ledger.takes_s = 0.0
    queue.queue_row(2, ("loss",), (2.0,))
    assert queue.drain()
    assert not queue.is_queueing
    assert FactsReader(tmp_path).events() == []
