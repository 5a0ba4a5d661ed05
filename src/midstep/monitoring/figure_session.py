"""`FigureSession`: draws the figures of a run while it trains, off the training thread.

A thread follows the facts of the run and draws when an epoch has ended. It may use a small share of
the time: epochs that end too soon are skipped, the last one is always drawn. The training thread
does nothing for it.
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
from midstep.monitoring.logging_config import LoggingConfig

SHARE = 0.01
"""The share of the time of a run that drawing may take."""
POLL_S = 0.5
"""How often the facts are looked at; the end of an epoch wakes the thread earlier."""
FIGURE_S = 0.06
"""What a figure is expected to take before one was drawn."""
READ_S_PER_BYTE = 3e-8
"""What reading the facts is expected to take before some were read."""
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
    """Processor time of the thread, for reading facts and drawing; importing is not counted."""
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
        self._drawn_epoch = -1
        """The last epoch with figures of `on_epoch_end`, or from before this session."""
        self._wake, self._is_over = threading.Event(), False
        self._thread: threading.Thread | None = None
        # Raised here, in the thread of the caller: a misspelt family is the user's to know.
        wanted = {
            family.name
            for moment in cfg_logging.moments
            for family in get_enabled_families(cfg_logging, self._supported, moment)
        }
        self._expected_s = FIGURE_S * len(wanted)
        if wanted and find_spec("matplotlib") is None:
            _log.warning("no figures are drawn: %s", MissingExtraError.of("matplotlib", "runs"))
        elif wanted:
            self._payloads.refresh()
            self._read_bytes = written_bytes(run_dir)
            self._drawn_epoch = self._payloads.finished_epoch  # an earlier attempt drew these
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
        """Look at the facts soon. Optional: the thread does so twice a second anyway."""
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
                if not self._is_over and self._is_due():
                    self._draw(Moment.EPOCH_END)
            self._draw_end()
            self._report_totals()
        except Exception:  # noqa: BLE001 - the training continues without figures
            _log.exception("figures of %s are off; the training continues", self.run_dir)

    def _is_due(self) -> bool:
        """Whether an epoch has ended whose figures the share of time allows."""
        # Reading counts too: epochs of milliseconds would else be read one by one.
        size = written_bytes(self.run_dir)
        if not self._has_time(self._s_per_byte * (size - self._read_bytes)):
            return False
        self._refresh()
        is_new = self._payloads.finished_epoch != self._drawn_epoch
        return is_new and self._has_time(self.counts.last_cost_s or self._expected_s)

    def _has_time(self, cost_s: float) -> bool:
        elapsed = time.monotonic() - self._began
        return self.counts.cost_s + cost_s <= self._share * elapsed

    def _draw_end(self) -> None:
        """The last epoch if it is not drawn yet, then the end of the training."""
        before = self.counts.cost_s
        self._refresh()
        if self._payloads.finished_epoch != self._drawn_epoch:
            self._draw(Moment.EPOCH_END)
        self._draw(Moment.TRAIN_END)
        self.counts.end_cost_s = self.counts.cost_s - before

    def _refresh(self) -> None:
        size, began = written_bytes(self.run_dir), time.thread_time()
        self._payloads.refresh()
        seconds = time.thread_time() - began
        if size > self._read_bytes:
            self._s_per_byte = seconds / (size - self._read_bytes)
            self._read_bytes = size
        self.counts.cost_s += seconds

    def _draw(self, moment: Moment) -> None:
        import matplotlib.backends.backend_agg
        import matplotlib.figure  # noqa: F401 - imported before the clock is read

        is_end = moment == Moment.TRAIN_END
        payload = self._payloads.payload(newer_than=-1 if is_end else self._drawn_epoch)
        if payload is None:
            return
        began = time.thread_time()
        drawn = handle_event(self._cfg, self._supported, moment, payload)
        self.counts.last_cost_s = time.thread_time() - began
        self.counts.cost_s += self.counts.last_cost_s
        self.counts.files += len(drawn.files)
        self._note_failures(moment, drawn)
        if not is_end:
            self._drawn_epoch = payload["epoch"]
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
        raise MissingExtraError.of("matplotlib", "runs")
    cfg = cfg_logging or LoggingConfig()
    payloads = FactsPayloads(run_dir, last_epoch=epoch)
    payloads.refresh()
    drawn = DrawnFigures()
    moments = [Moment.EPOCH_END]
    if payloads.ended and epoch is None:
        moments.append(Moment.TRAIN_END)
    for moment in moments:
        is_end = moment == Moment.TRAIN_END
        payload = payloads.payload(newer_than=-1 if is_end else payloads.finished_epoch - 1)
        if payload is not None:
            more = handle_event(cfg, cfg.families, moment, payload)
            drawn.files.extend(more.files)
            drawn.failures.update(more.failures)
    return drawn
