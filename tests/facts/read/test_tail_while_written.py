from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from midstep.core.moments import Moment
from midstep.facts import FactsTail, FactsWriter, LiveTail

RECORDS = 4000
TAILS: dict[str, Callable[[FactsWriter], FactsTail | LiveTail]] = {
    "opened": lambda facts: FactsTail(facts.run_dir),
    "held": lambda facts: FactsTail(facts.run_dir, held=True),
    "told": LiveTail,
}


@pytest.mark.parametrize("kind", TAILS)
@pytest.mark.parametrize("is_every_write_slow", [False, True])
def test_a_tail_that_reads_while_rows_and_events_are_written_misses_and_repeats_none(
    tmp_path: Path, is_every_write_slow: bool, kind: str
) -> None:
    with FactsWriter(tmp_path) as facts:
        # When every write is slow, records go through the queue and several threads write.
        facts._queue.slow_write_s = -1.0 if is_every_write_slow else 1e9
        tail = TAILS[kind](facts)
        done = threading.Event()

        def write() -> None:
            for index in range(RECORDS):
                if index % 3 == 2:
                    facts.event(Moment.INTERVENTION, kind="note", index=index)
                else:
                    facts.log(index, loss=index / 7)
            done.set()

        writer = threading.Thread(target=write)
        writer.start()
        seen: list[int] = []
        while not done.is_set():
            seen += numbers(tail)
        writer.join()
        facts.sync()
        seen += numbers(tail)
        assert seen == list(range(1, facts.seq + 1))
        assert isinstance(tail, LiveTail) or tail.problems == []
        tail.close()


def numbers(tail: FactsTail | LiveTail) -> list[int]:
    found: list[int] = []
    for item in tail.poll():
        first = getattr(item, "first_seq", None)
        if first is None:
            found.append(item.seq)
        else:
            found += range(first, item.last_seq + 1)
    return found
