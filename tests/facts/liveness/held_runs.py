"""A run that another process holds, for tests of locks, leases and end states."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path

from midstep.core.moments import Moment
from midstep.facts import FactsWriter, Lease
from tests.checkers.kill import Acknowledge

RUN_ID = "0123456789ab"


def hold(
    run_dir: Path, *, end: str | None = None, lease: bool = True
) -> Callable[[Acknowledge], None]:
    """The work of a child process: start a run, then end it as `end` says, or wait for a signal."""

    def work(acknowledge: Acknowledge) -> None:
        held = Lease.acquire(run_dir, RUN_ID) if lease else None
        facts = FactsWriter(run_dir, run_id=RUN_ID)
        facts.event(Moment.START)
        facts.log(1, loss=0.5)
        acknowledge("began")
        if end is None:
            signal.pause()
        elif end == "failed":
            facts.event(Moment.EXCEPTION, error="ValueError: boom")
        elif end != "closed":
            facts.event(Moment.TRAIN_END, status=end)
        facts.close()
        if held is not None:
            held.release()

    return work
