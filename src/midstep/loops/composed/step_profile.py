"""`phase1.trainer.profile=steps`: a trace of a few steps by the profiler of torch."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from torch import profiler

from midstep.core.files.storage import make_subfolder, replace_json
from midstep.core.moments import Moment

if TYPE_CHECKING:
    from pathlib import Path

    from midstep.session import Session
    from midstep.session.fit.fit_loop import StepRecord

SKIPPED = 3
"""Steps before the first that is profiled: they allocate memory and choose algorithms."""
PROFILED = 5
"""Steps in the trace."""
ROWS = 40
"""Operations in the summary, the slowest first."""
MOST_BYTES = 20_000_000
"""A larger trace is deleted again; only its summary is kept."""
TRACE, SUMMARY = "profile-trace.json.gz", "profile.json"


class StepProfile:
    """Profiles steps of one session and saves trace and summary in its folder `artifacts`.

    Args:
        session: the session that trains.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._steps = 0
        self._last_step = 0
        self._profile: profiler.profile | None = None
        self._began_s = 0.0

    def begin(self) -> None:
        """Profile from the fourth step on. The profiler belongs to the training thread."""
        self._session.on_step(self._step_ended)

    def _step_ended(self, record: StepRecord) -> None:
        self._steps += 1
        self._last_step = record.step
        if self._steps == SKIPPED:
            self._profile = profiler.profile(acc_events=True)
            self._profile.start()
            self._began_s = time.perf_counter()
        elif self._steps == SKIPPED + PROFILED:
            self.end()

    def end(self) -> None:
        """Stop the profiler and save what it recorded; nothing if it does not run."""
        profile, self._profile = self._profile, None
        if profile is None:
            return
        took_s = time.perf_counter() - self._began_s
        profile.stop()
        run = self._session.run
        folder = make_subfolder(run.dir, "artifacts")
        summary = {
            "steps": self._steps - SKIPPED,
            "first_step": self._last_step - (self._steps - SKIPPED) + 1,
            "duration_s": took_s,
            "rows": summarise(profile),
            **_save_trace(profile, folder),
        }
        replace_json(folder / SUMMARY, summary)
        run.event(
            Moment.INTERVENTION,
            who="system",
            kind="profile",
            step=self._last_step,
            path=f"artifacts/{SUMMARY}",
            trace=summary["trace"],
        )


def _save_trace(profile: profiler.profile, folder: Path) -> dict[str, Any]:
    path = folder / TRACE
    path.unlink(missing_ok=True)  # torch writes into what is there, also through a link
    profile.export_chrome_trace(str(path))
    size = path.stat().st_size
    if size <= MOST_BYTES:
        return {"trace": f"artifacts/{TRACE}", "trace_bytes": size}
    path.unlink()
    return {"trace": None, "trace_bytes": size}


def summarise(profile: profiler.profile) -> list[dict[str, Any]]:
    """The slowest operations: how often, and microseconds on the CPU and on the device."""
    rows = [
        {
            "name": each.key,
            "calls": each.count,
            "cpu_us": each.cpu_time_total,
            "self_cpu_us": each.self_cpu_time_total,
            "device_us": each.device_time_total,
            "self_device_us": each.self_device_time_total,
        }
        for each in profile.key_averages()
    ]
    rows.sort(key=lambda row: -(row["self_cpu_us"] + row["self_device_us"]))
    return rows[:ROWS]
