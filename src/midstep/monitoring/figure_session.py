"""`FigureSession`: draws the figures of a run while it trains, off the training thread.

A thread follows the facts of the run and draws when an epoch, a validation or a test has ended. It
may use a small share of the time: epochs that end too soon are skipped, the last one is always
drawn. The training thread does nothing for it.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from midstep.core.errors import MidstepError, MissingExtraError
from midstep.core.moments import Moment
from midstep.facts.liveness.run_liveness import written_bytes
from midstep.monitoring.draw_figures import DrawnFigures, get_enabled_families, handle_event
from midstep.monitoring.facts_payload import FactsPayloads
from midstep.monitoring.logging_config import FIGURE_MOMENTS, LoggingConfig

SHARE = 0.01
"""The share of the time of a run that drawing may take."""
POLL_S = 0.5
"""Seconds between two readings of the facts; the end of an epoch wakes the thread earlier."""
FIGURE_S = 0.06
"""Seconds that a figure is expected to take before one was drawn."""
READ_S_PER_BYTE = 3e-8
"""Seconds that reading the facts is expected to take before some were read."""
_log = logging.getLogger("midstep.monitoring")
Record = Callable[..., Any]
"""Records a fact: `record(moment, **fields)`, such as `FactsWriter.event`."""


@dataclass
class FigureCounts:
    """What a session has drawn so far."""

    files: int = 0
    drawn_epochs: list[int] = field(default_factory=list)
    failures: Counter[str] = field(default_factory=Counter)
    """How often each family failed."""
    cost_s: float = 0.0
    """Processor time of the thread, for importing matplotlib, reading facts and drawing."""
    last_cost_s: float = 0.0
    """The part of it that the last drawing took."""
    end_cost_s: float = 0.0
    """The part of it after the training."""


class FigureSession:
    """Draws the figures of one run from its start to `close`.

    Args:
        run_dir: the run directory.
        cfg_logging: which figures are wanted.
        supported_families: which families the loop has data for.
        record: records a fact about a family that failed; without it the failure is only logged.
        share: the share of the time that drawing may take.

    >>> import tempfile
    >>> from midstep.facts import FactsWriter
    >>> folder = tempfile.mkdtemp()
    >>> with FactsWriter(folder) as facts:
    ...     with FigureSession(folder, LoggingConfig(), ["losses"], facts.event) as figures:
    ...         _ = facts.event("on_epoch_end", epoch=0, train_loss=0.5)
    >>> sorted(path.name for path in Path(folder, "figures").iterdir())
    ['losses-on_epoch_end-e000.png', 'losses-on_train_end-e000.png']
    """

    def __init__(
        self,
        run_dir: str | Path,
        cfg_logging: LoggingConfig,
        supported_families: Iterable[str],
        record: Record | None = None,
        *,
        share: float = SHARE,
    ) -> None:
        self.run_dir, self._cfg = Path(run_dir), cfg_logging
        self._supported, self._record, self._share = tuple(supported_families), record, share
        self.counts = FigureCounts()
        self._payloads = FactsPayloads(run_dir)
        self._began = time.monotonic()
        self._read_bytes, self._s_per_byte = 0, READ_S_PER_BYTE
        self._drawn: dict[Moment, tuple[int, int]] = {}
        """By moment how many records were read at the last drawing, and the epoch of the last."""
        self._wake, self._is_over = threading.Event(), False
        self._thread: threading.Thread | None = None
        # Raised here, in the thread of the caller, so that the user sees a misspelt family.
        figures = {
            moment: len(get_enabled_families(cfg_logging, self._supported, moment))
            for moment in FIGURE_MOMENTS
        }
        wanted = [moment for moment, families in figures.items() if families]
        self._live = [moment for moment in wanted if moment != Moment.TRAIN_END]
        self._at_end = wanted
        self._expected_s = FIGURE_S * sum(figures[moment] for moment in self._live)
        if wanted and find_spec("matplotlib") is None:
            _log.warning(
                "no figures are drawn: %s", MissingExtraError.for_library("matplotlib", "runs")
            )
        elif wanted:
            self._payloads.refresh()
            self._read_bytes = written_bytes(run_dir)
            for moment in self._live:  # an earlier attempt drew these
                self._note_drawn(moment)
            # Not a daemon: it must not be in the middle of a file when the interpreter ends.
            self._thread = threading.Thread(target=self._run, name="midstep-figures")
            self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def on_epoch_end(self) -> None:
        """Let the thread read the facts at once. Optional: it does so twice a second anyway."""
        self._wake.set()

    def close(self) -> None:
        """Draw the last epoch and end the thread."""
        thread, self._thread = self._thread, None
        if thread is None:
            return
        self._is_over = True
        self._wake.set()
        thread.join()

    # -- the thread -------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            while not self._is_over:
                self._wake.wait(POLL_S)
                self._wake.clear()
                # The main thread may have ended without `close`, after an error.
                if not threading.main_thread().is_alive():
                    self._is_over = True
                if self._live and not self._is_over and self._is_due():
                    self._draw_all(self._live)
            self._draw_end()
            self._report_totals()
        except Exception:  # noqa: BLE001 - the training continues without figures
            _log.exception("figures of %s are off; the training continues", self.run_dir)

    def _is_due(self) -> bool:
        """Whether a moment has come whose figures the share of time allows."""
        # Reading counts too: otherwise epochs of milliseconds would be read one by one.
        size = written_bytes(self.run_dir)
        if not self._has_time(self._s_per_byte * (size - self._read_bytes)):
            return False
        self._refresh()
        is_new = any(map(self._is_new, self._live))
        return is_new and self._has_time(self.counts.last_cost_s or self._expected_s)

    def _is_new(self, moment: Moment) -> bool:
        records, _ = self._drawn.get(moment, (0, -1))
        return moment == Moment.TRAIN_END or self._payloads.records[moment] != records

    def _note_drawn(self, moment: Moment) -> None:
        """Remember that the newest record of a moment is drawn."""
        payloads = self._payloads
        self._drawn[moment] = (payloads.records[moment], payloads.last_epoch_of(moment))

    def _has_time(self, cost_s: float) -> bool:
        elapsed = time.monotonic() - self._began
        return self.counts.cost_s + cost_s <= self._share * elapsed

    def _draw_end(self) -> None:
        """What is not drawn yet, then the end of the training."""
        before = self.counts.cost_s
        self._refresh()
        self._draw_all(self._at_end)
        self.counts.end_cost_s = self.counts.cost_s - before

    def _refresh(self) -> None:
        size, began = written_bytes(self.run_dir), time.thread_time()
        self._payloads.refresh()
        seconds = time.thread_time() - began
        if size > self._read_bytes:
            self._s_per_byte = seconds / (size - self._read_bytes)
            self._read_bytes = size
        self.counts.cost_s += seconds

    def _draw_all(self, moments: Iterable[Moment]) -> None:
        """Draw the moments that are new."""
        began = time.thread_time()
        import matplotlib.backends.backend_agg
        import matplotlib.figure  # noqa: F401 - half a second, which no later drawing takes

        self.counts.cost_s += time.thread_time() - began
        self.counts.last_cost_s = 0.0
        for moment in filter(self._is_new, moments):
            began = time.thread_time()
            self._draw(moment)
            seconds = time.thread_time() - began
            self.counts.last_cost_s += seconds
            self.counts.cost_s += seconds

    def _draw(self, moment: Moment) -> None:
        _, drawn_epoch = self._drawn.get(moment, (0, -1))
        payload = self._payloads.payload(moment, newer_than=drawn_epoch)
        if payload is None:
            return
        drawn = handle_event(self._cfg, self._supported, moment, payload)
        self.counts.files += len(drawn.files)
        self._note_failures(moment, drawn)
        self._note_drawn(moment)
        if moment == Moment.EPOCH_END:
            self.counts.drawn_epochs.append(payload["epoch"])

    def _note_failures(self, moment: Moment, drawn: DrawnFigures) -> None:
        for family, error in drawn.failures.items():
            self.counts.failures[family] += 1
            if self.counts.failures[family] == 1:
                _log.warning("figures of %s failed: %s", family, error)
                self._note(family=family, at=str(moment), error=error, times=1)

    def _report_totals(self) -> None:
        """A family that failed more than once gets one further fact, not one for each epoch."""
        for family, times in self.counts.failures.items():
            if times > 1:
                self._note(family=family, times=times)

    def _note(self, **fields: Any) -> None:
        if self._record is None:
            return
        try:
            self._record(Moment.INTERVENTION, who="system", kind="figure_failed", **fields)
        except MidstepError as error:  # closed, or the disk is full
            _log.warning("a failed figure was not recorded: %s", error)


def draw_run_figures(
    run_dir: str | Path, cfg_logging: LoggingConfig | None = None, *, epoch: int | None = None
) -> DrawnFigures:
    """Draw the figures of a run from its facts, as they are drawn while it trains.

    Args:
        run_dir: the run directory.
        cfg_logging: which figures are wanted; by default all.
        epoch: draw the run as it was after this epoch; by default after the last.
    """
    if find_spec("matplotlib") is None:
        raise MissingExtraError.for_library("matplotlib", "runs")
    cfg = cfg_logging or LoggingConfig()
    payloads = FactsPayloads(run_dir, last_epoch=epoch)
    payloads.refresh()
    drawn = DrawnFigures()
    for moment in FIGURE_MOMENTS:
        is_end = moment == Moment.TRAIN_END
        if is_end and not (payloads.ended and epoch is None):
            continue
        # What an earlier epoch recorded is in the figures of that epoch.
        before = -1 if is_end else payloads.last_epoch_of(moment) - 1
        payload = payloads.payload(moment, newer_than=before)
        if payload is not None:
            more = handle_event(cfg, cfg.families, moment, payload)
            drawn.files.extend(more.files)
            drawn.failures.update(more.failures)
    return drawn
