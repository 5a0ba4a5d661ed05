"""Each phase of a study as a fact, with its time."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

from midstep.core.moments import Moment

__all__ = ["EventSink", "PhaseLog"]


class EventSink(Protocol):
    """Where facts go: the writer of a run, or any `Sink`."""

    def event(self, moment: Moment, **fields: Any) -> object:
        """A record worth keeping."""
        ...


class PhaseLog:
    """Tells a sink what is being done.

    Args:
        sink: where facts go; None: nowhere.
    """

    def __init__(self, sink: EventSink | None) -> None:
        self.sink = sink

    def note(self, phase: str, *, moment: Moment = Moment.INTERVENTION, **fields: Any) -> None:
        """A fact about a phase."""
        if self.sink is not None:
            self.sink.event(moment, who="influence", kind="phase", phase=phase, **fields)

    @contextmanager
    def phase(self, name: str, **fields: Any) -> Iterator[None]:
        """A phase that is noted with its time when it has ended well."""
        start = time.monotonic()
        yield
        self.note(name, seconds=round(time.monotonic() - start, 6), **fields)
