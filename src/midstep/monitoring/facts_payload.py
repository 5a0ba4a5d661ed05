"""`FactsPayloads`: what the plot families draw from, read from the facts of a run.

A run that trains is read from its tail, a finished one as a whole, by the same code.
"""

from __future__ import annotations

import logging
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
_EPOCHS = (Moment.EPOCH_END, Moment.VALIDATION_END)


class FactsPayloads:
    """The epochs of a run; `refresh` reads what is new.

    Args:
        run_dir: the run directory.
        last_epoch: leave out later epochs, to draw the run as it was then.
    """

    def __init__(self, run_dir: str | Path, *, last_epoch: int | None = None) -> None:
        self._run_dir, self._last_epoch = Path(run_dir), last_epoch
        self._scanners: dict[Path, EventsScanner] = {}
        self._history = EpochHistory()
        self._codebook = CodebookTruth()
        self._fields: dict[str, tuple[int, int, Any]] = {}
        """By name (timeline, epoch, value) of the newest record that has the field."""
        self.ended = False
        """Whether the run has recorded the end of its training."""
        self.finished_epoch = -1
        """The last epoch whose end is recorded; -1 for none."""

    def refresh(self) -> bool:
        """Read what is new; True if an epoch or the training has ended."""
        before = (self.finished_epoch, self.ended, len(self._history))
        for rank, _, path in list_events_files(self._run_dir):
            scanner = self._scanners.setdefault(path, EventsScanner(path))
            for line in scanner.read():
                if line.version == SCHEMA_VERSION:
                    self._add(rank, line.record())
        return before != (self.finished_epoch, self.ended, len(self._history))

    def _add(self, rank: int, record: dict[str, Any]) -> None:
        moment, epoch = record["moment"], record.get("epoch")
        if rank == 0 and moment in (Moment.START, Moment.TRAIN_END):
            self.ended = moment == Moment.TRAIN_END
        if moment not in _EPOCHS or type(epoch) is not int:
            return
        if self._last_epoch is not None and epoch > self._last_epoch:
            return
        timeline = record["timeline"]
        values = epoch_values(record) if rank == 0 else {}
        if self._add_counts(rank, record):
            statistics = codebook_statistics(self._codebook.counts(epoch))
            values |= {f"codebook_{name}": statistics[name] for name in ("perplexity", "usage")}
        if values:
            self._history.add(record, values)
        if rank:
            return
        for name in EPOCH_FIELDS:
            if name in record and self._fields.get(name, (0, -1))[:2] <= (timeline, epoch):
                self._fields[name] = (timeline, epoch, record[name])
        if moment == Moment.EPOCH_END:
            self.finished_epoch = epoch

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

    def payload(self, *, newer_than: int = -1) -> FigurePayload | None:
        """What is known after the last epoch; None before the first has ended.

        Args:
            newer_than: leave out samples, counts and noise levels up to this epoch: they are in an
                earlier figure already.
        """
        epoch = self.finished_epoch
        if epoch < 0:
            return None
        payload: dict[str, Any] = {
            "run_dir": str(self._run_dir),
            "epoch": epoch,
            "histories": self._histories(epoch),
        }
        for name, (_, at, value) in self._fields.items():
            if newer_than < at <= epoch:
                payload[name] = value
        counted = [each for each in self._codebook.epochs if each <= epoch]
        if "codebook" in payload and counted:
            payload["codebook"] = self._codebook.of_epoch(counted[-1])
        return payload  # type: ignore[return-value]

    def _histories(self, epoch: int) -> dict[str, dict[int, float]]:
        """Up to an epoch: later ones are of a timeline that a rewind left."""
        return {
            name: {
                each: value for each, value in self._history.by_epoch(name).items() if each <= epoch
            }
            for name in self._history.names
        }
