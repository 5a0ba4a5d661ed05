"""The epochs of a run as a table, read on from where it stopped last."""

from __future__ import annotations

from pathlib import Path

from midstep.core.moments import Moment
from midstep.facts.digest_events import metrics_of, scalars_of
from midstep.facts.history import EpochHistory
from midstep.facts.lines import SCHEMA_VERSION, EventsScanner

__all__ = ["read_history"]

_MARKS = tuple(
    f',"moment":"{moment}","run_id":'.encode()
    for moment in (Moment.EPOCH_END, Moment.VALIDATION_END)
)


def read_history(path: Path, history: EpochHistory, offset: int) -> int:
    """Take the epoch records behind `offset` into `history`; gives back where the last one ends."""
    scanner = EventsScanner(path, offset=offset)
    for line in scanner.read():
        if line.version == SCHEMA_VERSION and any(mark in line.raw for mark in _MARKS):
            record = line.record()
            history.take(record, {**scalars_of(record), **metrics_of(record)})
    return scanner.offset
