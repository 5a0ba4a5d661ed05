"""Rewind and certificate as a session offers them: two commands, and what the page is told."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any

from midstep.core.commands.catalog import BACK, DETERMINISM_HEALTH, BackPayload, CertifyPayload
from midstep.session.rewind.back import Rewind
from midstep.session.rewind.certificate import certify_in_slices
from midstep.session.rewind.snapshot_ring import SnapshotRing

if TYPE_CHECKING:
    from midstep.session.session import Session

__all__ = ["make_rewinder", "register_rewind"]


def make_rewinder(session: Session) -> Rewind:
    """The rewinder of a session, with the memory that its settings allow."""
    config, control = session.config, session.controller
    return Rewind(
        session.trainer,
        SnapshotRing(config.rewind_bytes, config.rewind_steps),
        arrived=lambda left: session.helm.arrived(left, cause="back"),
        tell=lambda phase: control.status.describe(phase=phase),
    )


def register_rewind(session: Session) -> Callable[[], None]:
    """Register `back` and `determinism_health`; return a function that withdraws them."""
    control, commands = session.controller, _Commands(session)
    withdraw = control.queue.register_all(
        {BACK: commands.back, DETERMINISM_HEALTH: commands.certify}
    )
    control.status.offer_rewind(commands.describe)

    def undo() -> None:
        withdraw()
        control.status.offer_rewind(None)

    return undo


class _Commands:
    """What they do, on the training thread; `describe` from any."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def back(self, payload: BackPayload) -> Generator[float, None, dict[str, Any]]:
        """Where the training stands then, and whether the replay came to the same bits."""
        session = self._session
        told = yield from session.rewind.back(payload)
        training = session.trainer
        where = {"step": training.step, "timeline": training.timeline, "epoch": training.epoch}
        return {**where, **told}

    def certify(self, payload: CertifyPayload) -> Generator[float, None, dict[str, Any]]:
        """The certificate, as every report on health is given."""
        session, training = self._session, self._session.trainer
        session.controller.status.describe(phase="certifying")
        try:
            found = yield from certify_in_slices(training, payload.steps)
        finally:
            session.controller.status.describe(phase=None)
        # The checkpoint of the pause may not be on the disk yet.
        session.checkpoint_writer.wait()
        last = session.checkpoint_writer.last
        header = {
            "run": session.run.run_id,
            "step": training.step,
            "epoch": training.epoch,
            "checkpoint": None if last is None else f"checkpoints/{last.name}",
        }
        return {"header": header, "text": found.words, "data": found.describe()}

    def describe(self) -> dict[str, Any]:
        """Every field of `GET /debug/rewind`."""
        return {**self._session.rewind.describe(), "timeline": self._session.trainer.timeline}
