"""Which captures are ready for a stream: the content of its `capture` messages."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from midstep.control.capture.subscriptions import Need

if TYPE_CHECKING:
    from midstep.control.controller import DebugController


@dataclass(frozen=True, kw_only=True)
class CaptureNotice:
    """A capture that a stream has subscribed to, and that can be read."""

    id: str
    """The id that the stream chose."""
    step: int
    """Finished steps after the captured step."""
    etag: str
    """Names the capture."""
    bytes: int
    """Bytes that are held of it."""
    every: int = 1
    """One of so many steps was captured."""
    shown: int | None = None
    """Samples that are shown; None outside a batch."""
    of: int | None = None
    """Samples in the batch."""

    @property
    def is_thinned(self) -> bool:
        """Whether steps or samples were left out."""
        return self.every > 1 or self.shown != self.of


class CaptureNotices:
    """Describes what is captured for the streams of one run. Used by any thread.

    Args:
        controller: of the run.
    """

    def __init__(self, controller: DebugController) -> None:
        self._controller = controller
        self._captures = controller.captures

    def list_notices(self, stream: str) -> list[CaptureNotice]:
        """All captures of a stream that can be read now."""
        wanted = self._captures.subscriptions.list_of(stream)
        notices = (self._describe(name, need) for name, need in wanted.items())
        return [notice for notice in notices if notice is not None]

    def _describe(self, name: str, need: Need) -> CaptureNotice | None:
        step, every = self._captures.subscriptions.progress(need)
        # A paused or ended run shows what is there. While a run moves, what was captured before
        # this subscription may be old.
        if step is None and self._controller.status.makes_steps:
            return None
        if need.kind == "batch":
            notice = self._describe_batch(name, need)
        elif need.is_data:
            notice = self._describe_data(name, need)
        else:
            notice = self._describe_tensor(name, need)
        # Another step than the planned one was made by hand, or is where the run is paused.
        is_planned = notice is not None and notice.step == step
        return replace(notice, every=every) if notice is not None and is_planned else notice

    def _describe_tensor(self, name: str, need: Need) -> CaptureNotice | None:
        captured = self._controller.weight_changes.captured(need)
        if captured is None:
            return None
        step, size = captured
        etag = f"{step}.{self._controller.status.timeline}.{int(size > 0)}"
        return CaptureNotice(id=name, step=step, etag=etag, bytes=size)

    def _describe_batch(self, name: str, need: Need) -> CaptureNotice | None:
        captured = self._captures.reader.newest_with(need)
        if captured is None:
            return None
        of = captured.layout.count
        stop = of if need.count is None else min(need.first + need.count, of)
        return CaptureNotice(
            id=name,
            step=captured.step + 1,
            etag=captured.etag,
            bytes=captured.nbytes,
            shown=max(0, stop - need.first),
            of=of,
        )

    def _describe_data(self, name: str, need: Need) -> CaptureNotice | None:
        data, key = self._captures.data.published, need.data_key
        if key is None:
            if not data.values:
                return None
            return CaptureNotice(id=name, step=data.step, etag=data.etag, bytes=0)
        if key not in data.values:
            return None
        etag = data.etag_of(key) or ""
        return CaptureNotice(id=name, step=data.step_of(key), etag=etag, bytes=0)
