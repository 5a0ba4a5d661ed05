"""`FactsPayloads`: what the plot families draw from, read from the facts of a run.

A run that trains is read from its tail, a finished one as a whole, by the same code.
"""

from __future__ import annotations

import logging
from collections import Counter
from pathlib import Path
from typing import Any

from midstep.core.moments import Moment
from midstep.facts.format.event_lines import SCHEMA_VERSION
from midstep.facts.format.paths import list_events_files
from midstep.facts.format.scanners import EventsScanner
from midstep.facts.index.epoch_history import EpochHistory
from midstep.facts.index.event_summary import epoch_values
from midstep.monitoring.codebook_truth import CodebookTruth, codebook_statistics
from midstep.monitoring.figure_payload import EPOCH_FIELDS, FigurePayload

_log = logging.getLogger("midstep.monitoring")
# A validation belongs to its epoch, too: the end of the epoch may lack it, or be missing.
_DRAWN_FROM = {
    Moment.VALIDATION_END: (Moment.VALIDATION_END, Moment.EPOCH_END),
    Moment.EPOCH_END: (Moment.EPOCH_END,),
    Moment.TEST_END: (Moment.TEST_END,),
}
"""By the moment of a record the moments whose figures it is drawn in."""
_SOURCES = {Moment.TRAIN_END: Moment.EPOCH_END}
"""Moments that have no values of their own, and whose they show."""


class FactsPayloads:
    """The epochs of a run; `refresh` reads what is new.

    Args:
        run_dir: the run directory.
        last_epoch: leave out later epochs and all tests, to draw the run as it was then.
    """

    def __init__(self, run_dir: str | Path, *, last_epoch: int | None = None) -> None:
        self._run_dir, self._last_epoch = Path(run_dir), last_epoch
        self._scanners: dict[Path, EventsScanner] = {}
        self._history = {moment: EpochHistory() for moment in _DRAWN_FROM}
        self._codebook = CodebookTruth()
        self._fields: dict[tuple[Moment, str], tuple[int, int, Any]] = {}
        """(timeline, epoch, value) of the newest record that has the field."""
        self._epochs = dict.fromkeys(_DRAWN_FROM, -1)
        self.records: Counter[Moment] = Counter()
        """How many records of each moment were read."""
        self.ended = False
        """Whether the run has recorded the end of its training."""

    def last_epoch_of(self, moment: Moment) -> int:
        """The epoch of the last of these moments; -1 for none."""
        return self._epochs[_SOURCES.get(moment, moment)]

    def refresh(self) -> None:
        """Read what is new."""
        for rank, _, path in list_events_files(self._run_dir):
            scanner = self._scanners.setdefault(path, EventsScanner(path))
            for line in scanner.read():
                if line.version == SCHEMA_VERSION:
                    self._add(rank, line.record())

    def _add(self, rank: int, record: dict[str, Any]) -> None:
        moment, epoch = record["moment"], record.get("epoch")
        if rank == 0 and moment in (Moment.START, Moment.TRAIN_END):
            self.ended = moment == Moment.TRAIN_END
        if moment not in _DRAWN_FROM or type(epoch) is not int:
            return
        if self._last_epoch is not None and (epoch > self._last_epoch or moment == Moment.TEST_END):
            return
        if moment == Moment.TEST_END:
            # Its own epoch is the one that would have come next.
            epoch = max(0, self.last_epoch_of(Moment.EPOCH_END))
        self._add_epoch(rank, Moment(moment), {**record, "epoch": epoch})

    def _add_epoch(self, rank: int, moment: Moment, record: dict[str, Any]) -> None:
        epoch, timeline = record["epoch"], record["timeline"]
        values = _values(record) if rank == 0 else {}
        if moment != Moment.TEST_END and self._add_counts(rank, record):
            statistics = codebook_statistics(self._codebook.counts(epoch))
            values |= {f"codebook_{name}": statistics[name] for name in ("perplexity", "usage")}
        for at in _DRAWN_FROM[moment]:
            if values:
                self._history[at].add(record, values)
            for name in EPOCH_FIELDS if rank == 0 else ():
                known = self._fields.get((at, name), (0, -1))[:2]
                if name in record and known <= (timeline, epoch):
                    self._fields[at, name] = (timeline, epoch, record[name])
        if rank == 0:
            self._epochs[moment] = epoch
            self.records[moment] += 1

    def _add_counts(self, rank: int, record: dict[str, Any]) -> bool:
        """Add the counts of codes in a record; False if it has none that can be read."""
        codebook = record.get("codebook")
        if not isinstance(codebook, dict) or "counts" not in codebook:
            return False
        epoch, timeline = record["epoch"], record["timeline"]
        try:
            self._codebook.add(epoch, codebook["counts"], rank=rank, timeline=timeline)
        except ValueError as error:
            _log.debug("codebook counts of epoch %s are left out: %s", epoch, error)
            return False
        return True

    def payload(
        self, moment: Moment = Moment.EPOCH_END, *, newer_than: int = -1
    ) -> FigurePayload | None:
        """What is known at the last of these moments; None before the first.

        A validation has its own records alone, so that it shows the same before the epoch ends and
        after it. A test and the end of the training have all epochs, and the tests next to them.

        Args:
            moment: one of `FIGURE_MOMENTS`.
            newer_than: leave out samples, counts and noise levels up to this epoch: they are in an
                earlier figure already.
        """
        source, epoch = _SOURCES.get(moment, moment), self.last_epoch_of(moment)
        if epoch < 0:
            return None
        histories = self._histories(source, epoch)
        if moment == Moment.TEST_END:
            histories = self._histories(Moment.EPOCH_END, epoch) | histories
        elif moment == Moment.TRAIN_END:
            histories |= self._histories(Moment.TEST_END, epoch)
        payload: dict[str, Any] = {
            "run_dir": str(self._run_dir),
            "epoch": epoch,
            "histories": histories,
        }
        for name in EPOCH_FIELDS:
            _, at, value = self._fields.get((source, name), (0, -1, None))
            if newer_than < at <= epoch:
                payload[name] = value
        counted = [each for each in self._codebook.epochs if each <= epoch]
        if "codebook" in payload and counted:
            payload["codebook"] = self._codebook.of_epoch(counted[-1])
        return payload  # type: ignore[return-value]

    def _histories(self, moment: Moment, epoch: int) -> dict[str, dict[int, float]]:
        """Up to an epoch: later ones are of a timeline that a rewind left."""
        history = self._history[moment]
        return {
            name: {each: value for each, value in history.by_epoch(name).items() if each <= epoch}
            for name in history.names
        }


def _values(record: dict[str, Any]) -> dict[str, float]:
    """The numbers of a record; those of a test are named as such."""
    values = epoch_values(record)
    if record["moment"] != Moment.TEST_END:
        return values
    return {f"test_{name.removeprefix('test_')}": value for name, value in values.items()}
