"""Reading on from disk, for a viewer that returns or was too slow."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from midstep.server.frames import Frame, durable_frames

__all__ = ["DiskReader"]

FRAMES_AT_ONCE = 8


class DiskReader:
    """Durable frames behind a sequence number, a few at a time so that memory stays flat.

    Args:
        run_dir: the run directory.
        after_seq: records up to this number are not wanted.
    """

    def __init__(self, run_dir: Path, *, after_seq: int) -> None:
        from midstep.facts import FactsTail

        self._tail = FactsTail(run_dir, after_seq=after_seq)
        self._frames: Iterator[Frame] = iter(())

    def read(self) -> list[Frame]:
        """The next frames; empty when there are none yet. Call it in a thread."""
        found = list(islice(self._frames, FRAMES_AT_ONCE))
        if not found:
            self._frames = durable_frames(self._tail.poll())
            found = list(islice(self._frames, FRAMES_AT_ONCE))
        return found
