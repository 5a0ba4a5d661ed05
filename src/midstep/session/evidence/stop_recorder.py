"""`StopRecorder`: keeps what a run shows at each stop, at an error and at its end.

At a pause the training thread hands over references to copies that exist anyway. Another thread
encodes and writes them. At the end the last batch is read by reference, as nothing changes it.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from importlib import import_module
from typing import TYPE_CHECKING, Any

from midstep.control.capture.captured_data import CapturedBatch, StepData, resolve
from midstep.control.capture.subscriptions import LAYERS_KEY, Need
from midstep.core import strict_json
from midstep.core.errors import StorageError
from midstep.core.moments import Moment
from midstep.core.standard_streams import print_notice
from midstep.facts.format.stop_files import StopName
from midstep.facts.read.console_text import as_printed, read_console
from midstep.session.evidence.stop_writer import Part, StopWriter

if TYPE_CHECKING:
    from pathlib import Path

    from midstep.control import DebugController
    from midstep.control.capture.captured_data import CapturedSamples
    from midstep.control.capture.captures import Captures
    from midstep.control.panels import Panel
    from midstep.facts import FactsWriter
    from midstep.session.evidence.console_capture import ConsoleCapture

ENCODER = "midstep.server.step_views.stop_parts"
"""Encodes what the routes would answer. Its room is above this one, so it is loaded by name."""
WAIT_S = 20.0
"""How long the end of a run waits for a device or a disk that does not answer."""
SETTLE_S = 0.3
"""Of steps that follow each other this fast only the last one is kept."""
SHOWN = 128
"""Samples of the last step that are captured."""
CAPTURE_EVERY_S = 5.0
"""Where the end is not known, the last step of a pass is captured at most this often."""
CONSOLE_BYTES = 16 << 10
MOST_POINTS = 500
MOST_POINTS_IN_ALL = 20_000
SAMPLES_OFF = "evidence=False keeps samples off the disk"
NO_BATCH = "no batch was in view, and the loop reports none that it leaves unchanged"
OF_STATE = ("total_steps", "epoch", "total_epochs", "loss", "lr")

log = logging.getLogger("midstep.session")
Layers = tuple["Panel", Mapping[str, Any]]


@dataclass(frozen=True, kw_only=True)
class Stop:
    """One stop on its way to the disk."""

    name: StopName
    manifest: Mapping[str, Any]
    batch: CapturedBatch | CapturedSamples | None
    whole: CapturedBatch | None
    """The whole batch of these samples, where it is still there."""
    data: StepData
    console_end: int | None
    """Bytes that were printed until then; None if nothing is captured."""
    done: threading.Event = field(default_factory=threading.Event)

    @property
    def is_single_step(self) -> bool:
        """Whether a `step` command ended here, so that another one is likely to follow."""
        return bool(self.manifest["cause"] == "step")


class StopRecorder:
    """Keeps the stops of one run.

    Args:
        run_dir: the run directory.
        controller: of the run.
        facts: get a record of each stop that is kept.
        console: flushed before its end is kept with a stop; None if it is off.
        measure_layers: the table of layers outside a step; None if there is no model.
        attempt: which start of the run this is.
        keeps_samples: whether samples and the data of hooks may be written.
    """

    def __init__(
        self,
        run_dir: Path,
        controller: DebugController,
        facts: FactsWriter,
        *,
        console: ConsoleCapture | None,
        measure_layers: Callable[[], Layers | None],
        attempt: int,
        keeps_samples: bool,
    ) -> None:
        self._run_dir, self._controller, self._facts = run_dir, controller, facts
        self._console, self._measure_layers = console, measure_layers
        self._attempt, self._keeps_samples = attempt, keeps_samples
        self._writer: StopWriter | None = None
        self._lock = threading.Lock()
        self._waiting: list[Stop] = []
        self._thread: threading.Thread | None = None
        self._is_closing = threading.Event()
        self._has_failed = False
        self._captured_at = float("-inf")
        self._stop_listening = controller.sinks.on_park(self._parked)

    # -- on the training thread -------------------------------------------------------------------

    def before_last_step(self) -> None:
        """The last step begins, or the last one of a pass: capture its layers and samples.

        They are kept if the run ends after it.
        """
        now = time.monotonic()
        is_sure = self._controller.status.progress["total_steps"] is not None
        if self._keeps_samples and (is_sure or now - self._captured_at >= CAPTURE_EVERY_S):
            self._captured_at = now
            needs = Need(kind="layers"), Need(kind="batch", count=SHOWN)
            self._controller.captures.subscriptions.plan_next_step(*needs)

    def _parked(self) -> None:
        """The run is paused: keep what it shows. An error is kept by `keep_end`."""
        step, park = self._controller.boundary.finished_steps, self._controller.status.park
        if park is None or park.cause == "exception" or step == 0:
            return
        name = StopName(self._timeline, step)
        self._submit(
            self._make_stop(
                name,
                {
                    "cause": park.cause,
                    "who": park.who,
                    "reason": park.reason,
                    "breakpoint": None if park.breakpoint is None else dict(park.breakpoint),
                },
            )
        )

    def keep_end(self, cause: str, reason: str | None) -> None:
        """Keep what the run shows at its end; returns when it is on disk.

        Args:
            cause: `finished`, `stopped` or `exception`.
            reason: why it was stopped, or the error in one line.
        """
        step = self._controller.boundary.finished_steps
        if step == 0 and cause != "exception":
            return  # nothing was trained
        fields = {"cause": cause, "who": None, "reason": reason, "breakpoint": None}
        stop = self._make_stop(StopName(self._timeline, step, is_end=True), fields)
        self._is_closing.set()  # nothing waits for a step that follows
        self._submit(stop)
        if not stop.done.wait(WAIT_S):
            log.warning("the end of the run is not kept: the disk or the device does not answer")

    @property
    def _timeline(self) -> int:
        return self._controller.status.timeline

    def _make_stop(self, name: StopName, cause: Mapping[str, Any]) -> Stop:
        control = self._controller
        state, data = control.get_state(), control.captures.data.published
        manifest = {
            "stop": name.id,
            "attempt": self._attempt,
            "step": name.step,
            "timeline": name.timeline,
            "wall": time.time(),
            **cause,
            **{field: state[field] for field in OF_STATE},
            "breakpoints": [each.describe() for each in control.list_breakpoints()],
        }
        batch = whole = None
        if self._keeps_samples:
            batch, whole = _newest_batch(control.captures)
        return Stop(
            name=name,
            manifest=manifest,
            batch=batch,
            whole=whole,
            data=data,
            console_end=None if self._console is None else self._console.end(),
        )

    # -- handing over -----------------------------------------------------------------------------

    def _submit(self, stop: Stop) -> None:
        with self._lock:
            last = self._waiting[-1] if self._waiting else None
            if last is not None and last.is_single_step and stop.is_single_step:
                self._waiting.pop().done.set()
            self._waiting.append(stop)
            if self._thread is not None:
                return
            # It lives only while there is something to write. A daemon, because a device that
            # hangs must not keep the process from ending; `close` waits for it.
            self._thread = threading.Thread(target=self._run, name="midstep-stops", daemon=True)
            thread = self._thread
        try:
            thread.start()
        except RuntimeError:  # the interpreter exits and starts no more threads
            self._run()

    def _run(self) -> None:
        while True:
            with self._lock:
                if not self._waiting:
                    self._thread = None
                    return
                settles = len(self._waiting) == 1 and self._waiting[0].is_single_step
            if settles:
                self._is_closing.wait(SETTLE_S)
            with self._lock:
                stop = self._waiting.pop(0)
            try:
                self._write(stop)
            except StorageError as error:
                self._say_once(error)
            except Exception:
                # A fault of ours must not end the training, nor hide its end.
                log.exception("a stop could not be kept; training continues")
            finally:
                stop.done.set()

    def _say_once(self, error: StorageError) -> None:
        if not self._has_failed:
            print_notice(f"a stop could not be kept: {error}")
        self._has_failed = True

    def close(self) -> None:
        """Wait until everything is written, and keep nothing more; closing twice is fine."""
        self._stop_listening()
        self._is_closing.set()
        with self._lock:
            thread = self._thread
        if thread is not None:
            thread.join(WAIT_S)

    # -- writing, on another thread ---------------------------------------------------------------

    def _write(self, stop: Stop) -> None:
        if self._writer is None:
            self._writer = StopWriter(self._run_dir)
        data = self._with_layers(stop)
        keys = [key for key in data.values if self._keeps_samples or key == LAYERS_KEY]
        keys.sort(key=lambda key: key != LAYERS_KEY)  # first, in case not all of it fits
        problems: dict[str, str] = {}
        batch = stop.batch
        if batch is None:
            problems["batch"] = NO_BATCH if self._keeps_samples else SAMPLES_OFF
        watches = self._controller.watches
        source, others = watches.source, dict(watches.watched_by_source())
        manifest = {
            **stop.manifest,
            "step_data": [_entry(data, key) for key in keys],
            "batch_step": None if batch is None else batch.step,
            "batch_samples": None if batch is None else batch.layout.count,
            "watches": {
                "source": source,
                "feature_ids": others.pop(source or "", []),
                "others": others,
            },
            "not_kept": problems,
        }
        parts = self._parts(stop, data, keys, problems)
        size = self._writer.write(stop.name, manifest, parts)
        if stop.name.is_end:  # the last fact of a run stays that of its end
            return
        self._facts.event(
            Moment.INTERVENTION,
            who="system",
            kind="evidence",
            stop=stop.name.id,
            step=stop.name.step,
            cause=stop.manifest["cause"],
            bytes=size,
        )

    def _with_layers(self, stop: Stop) -> StepData:
        """The step data; at the end with a table of layers, if the last step has none."""
        data = stop.data
        if not stop.name.is_end or data.step_of(LAYERS_KEY) == stop.name.step:
            return data
        try:
            measured = self._measure_layers()
        except Exception:  # noqa: BLE001 - such as a device that is lost after an error of its own
            measured = None
        if measured is None:
            return data
        panel, table = measured
        return replace(
            data,
            step=stop.name.step,
            values={**data.values, LAYERS_KEY: table},
            panels={**data.panels, LAYERS_KEY: panel},
            origins={key: each for key, each in data.origins.items() if key != LAYERS_KEY},
        )

    def _parts(
        self,
        stop: Stop,
        data: StepData,
        keys: list[str],
        problems: dict[str, str],
    ) -> Iterator[Part]:
        """The parts of the file, by importance."""
        encoder: Any = import_module(ENCODER)
        batch, whole = stop.batch, _resolved(stop.whole)
        etag = f"{stop.name.id}.{self._attempt}.kept"
        if batch is not None:
            yield from _safely(encoder.batch_parts(batch, etag), "batch", problems)
        yield from _safely(encoder.step_data_parts(data, keys[:1]), "step data", problems)
        yield from self._console_part(stop.console_end)
        yield from self._watched_rows(stop)
        others = encoder.step_data_parts(data, keys[1:], first=1)
        yield from _safely(others, "step data", problems)
        if batch is not None and whole is not None:
            yield from _safely(encoder.sample_parts(whole, batch, etag), "samples", problems)

    def _console_part(self, end: int | None) -> Iterator[Part]:
        """The last lines that were printed before the stop."""
        if not end:
            return
        start = max(0, end - CONSOLE_BYTES)
        try:
            read = read_console(self._run_dir, after=start, most=end - start)
        except OSError:  # a part was removed; the console itself is kept
            return
        yield "console.txt", as_printed(read.text).encode("utf-8", "backslashreplace")

    def _watched_rows(self, stop: Stop) -> Iterator[Part]:
        """The points of watched rows; at the end the run saves all of them."""
        if stop.name.is_end:
            return
        rows = self._controller.watches.export(points=MOST_POINTS, in_all=MOST_POINTS_IN_ALL)
        if rows["trajectories"] or rows["others"]:
            yield "trajectories.json", strict_json.dumps(rows).encode()


def _newest_batch(
    captures: Captures,
) -> tuple[CapturedBatch | CapturedSamples | None, CapturedBatch | None]:
    """The newest batch: a copy of its first samples, and the whole batch if it is still there.

    The whole batch may be a reference: of the step that raised, or of the last one.
    """
    held = captures.held_batch or captures.last_batch
    copies = [each for each in captures.recent if held is None or each.step == held.step]
    copies.sort(key=lambda each: (-each.step, not isinstance(each, CapturedBatch)))
    if copies:
        samples = copies[0]
    elif held is not None:
        samples = held.copy_samples(((0, SHOWN),), f"{held.step + 1}.end")
    else:
        return None, None
    return samples, samples if isinstance(samples, CapturedBatch) else held


def _resolved(batch: CapturedBatch | None) -> CapturedBatch | None:
    """A batch that was held by reference, with what its functions return.

    Losses and predictions are in the copy of its samples: they need what the step has let go.
    """
    if batch is None or batch.etag:
        return batch
    held = resolve(batch.batch), resolve(batch.labels)
    return replace(batch, batch=held[0], labels=held[1], results=None)


def _entry(data: StepData, key: str) -> dict[str, Any]:
    panel = data.panels.get(key)
    return {
        "key": key,
        "step": data.step_of(key),
        "panel": None if panel is None else panel.kind,
    }


def _safely(parts: Iterable[Part], what: str, problems: dict[str, str]) -> Iterator[Part]:
    """The parts up to the first that raises; a batch may hold any object of the user."""
    try:
        yield from parts
    except Exception as error:  # noqa: BLE001 - as above; the other parts are kept
        problems[what] = f"{type(error).__name__}: {str(error)[:200]}"
